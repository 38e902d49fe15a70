//! Lowers a program to a model.

use std::sync::Arc;

use jaxpr::{Atom, Aval, Program};
use onnx::build::{Built, SourceContext};
use onnx::kernels::Target;
use onnx::pairs::Pairs;
use onnx::{Builder, DType, Expr, Function, Model, Note, Trial};
use options::{DequantizeMode, HalfMode, NanMode, Options};
use provenance::{Site, Table};

use crate::ctx::{Ctx, Primitive};
use crate::error::{LoweringError, Refused, Stop};
use crate::plugins::PLUGINS;

/// The inputs of a lowering besides the program and the options of the export.
#[derive(Clone, Debug)]
pub struct Call {
    /// The names of the first inputs, which take precedence over the names of the arguments.
    pub input_names: Vec<String>,
    /// The names of the first outputs; the others are `out_0`, `out_1`, ….
    pub output_names: Vec<String>,
    /// The paths of the first inputs in the arguments; the paths of the others are their names.
    pub input_paths: Vec<String>,
    /// The paths of the first outputs in the result; the paths of the others are their names.
    pub output_paths: Vec<String>,
    /// The maximum nesting of jaxprs, which the size of the stack limits.
    pub max_depth: usize,
    /// True if the model records the value that holds each variable of the program.
    pub pairs: bool,
    /// The runtimes that the model is for.
    pub target: Target,
    /// Set only while the worth of rewrites is measured.
    pub trial: Option<Trial>,
}

impl Default for Call {
    fn default() -> Call {
        Call {
            input_names: Vec::new(),
            output_names: Vec::new(),
            input_paths: Vec::new(),
            output_paths: Vec::new(),
            max_depth: usize::MAX,
            pairs: false,
            target: Target::default(),
            trial: None,
        }
    }
}

/// The refusals of all equations, with the provenance table of their sites.
#[derive(Debug)]
pub struct Failure {
    /// Never empty.
    pub errors: Vec<LoweringError>,
    pub table: Box<Table>,
}

/// Lowers a program to a model that is correct and not yet optimized.
pub fn lower(mut program: Program, options: &Options, call: &Call) -> Result<Model, Failure> {
    let exact_nan = options.nan == NanMode::Exact;
    let target = call.target;
    let table = std::mem::take(&mut program.table);
    let builder = Builder::new(options.opset, table, exact_nan, target);
    let is_fast = options.half == HalfMode::Fast;
    match lower_main(&builder, &program, is_fast, call) {
        Ok((inputs, outputs, widened, notes, pairs)) => {
            let ids = |exprs: Vec<Expr<'_>>| exprs.into_iter().map(|expr| expr.id).collect();
            let (inputs, outputs) = (ids(inputs), ids(outputs));
            let mut opsets = builder.opsets();
            let Built { graph, functions, values, table } =
                builder.finish(&options.model_name, inputs, outputs);
            add_domains(&mut opsets, &functions);
            Ok(Model {
                ir_version: ir_version(options.opset),
                opsets,
                graph,
                functions,
                values,
                provenance: table,
                producer_name: "jax2onnx".into(),
                producer_version: env!("CARGO_PKG_VERSION").into(),
                metadata: Vec::new(),
                exact_nan,
                dequantizes: options.dequantize == DequantizeMode::Run,
                widened,
                target,
                notes,
                rewrite: None,
                pairs,
                assumptions: None,
                trial: call.trial.clone(),
            })
        }
        Err(errors) => {
            let Built { table, .. } = builder.finish("", Vec::new(), Vec::new());
            Err(Failure { errors, table: Box::new(table) })
        }
    }
}

type Ends<'g> = (Vec<Expr<'g>>, Vec<Expr<'g>>, Option<DType>, Vec<Note>, Option<Box<Pairs>>);

fn lower_main<'g>(
    builder: &'g Builder,
    program: &Program,
    is_fast: bool,
    call: &Call,
) -> Result<Ends<'g>, Vec<LoweringError>> {
    let main = &program.main;
    let place = SourceContext { stack: main.place.stack, scope: None };
    let at_definition = |stop: Stop| match stop {
        Stop::Here(why) => {
            let site = Site { stack: place.stack, scope: None, emitter: None };
            let site = builder.table(|table| table.site(site));
            LoweringError { why, site }
        }
        Stop::Inside(error) => error,
    };
    let primitives = PLUGINS.iter().map(|plugin| (plugin.primitive, plugin as &dyn Primitive));
    let ctx = Ctx::new(builder, primitives, place.stack, call.pairs);
    let all = |stop: Stop| {
        let mut errors = ctx.refusals();
        errors.push(at_definition(stop));
        errors
    };
    check_depth(builder, main, call.max_depth).map_err(|error| vec![error])?;
    let inputs = inputs(&ctx, program, call).map_err(|why| all(why.into()))?;
    if is_fast {
        ctx.widen_halves();
    }
    let results = ctx.jaxpr(main, &inputs, SourceContext::default()).map_err(all)?;
    let results = narrow(&ctx, main, results).map_err(|why| all(why.into()))?;
    let errors = ctx.refusals();
    if !errors.is_empty() {
        return Err(errors);
    }

    // The location of a node that only names an output is the definition of the function.
    let entered = builder.enter_plugin(place, &"output".into());
    let outputs = outputs(builder, &inputs, results, call);
    builder.leave(entered);
    Ok((inputs, outputs, ctx.widened(), ctx.notes(), ctx.take_pairs()))
}

/// Refuses the equation with the deepest nesting of jaxprs, if the nesting is too deep.
fn check_depth(builder: &Builder, main: &jaxpr::Jaxpr, most: usize) -> Result<(), LoweringError> {
    let eqns = main.eqns.iter().filter(|_| main.depth > most);
    let Some(eqn) = eqns.max_by_key(|eqn| eqn.depth()) else {
        return Ok(());
    };
    let site = Site { stack: eqn.place.stack, scope: eqn.place.scope, emitter: None };
    let site = builder.table(|table| table.site(site));
    Err(LoweringError { why: Refused::Deep { depth: main.depth, most }, site })
}

fn inputs<'g>(ctx: &Ctx<'g>, program: &Program, call: &Call) -> Result<Vec<Expr<'g>>, Refused> {
    let main = &program.main;
    let given = &call.input_names;
    let names = (0..main.inputs.len()).map(|i| match (given.get(i), main.input_names.get(i)) {
        (Some(name), _) => name.clone(),
        (_, Some(name)) if !name.is_empty() => name.to_string(),
        _ => format!("in_{i}"),
    });
    bind_symbols(ctx, main);
    let mut inputs = Vec::new();
    for (i, (name, &var)) in names.zip(&main.inputs).enumerate() {
        let input = ctx.builder.input(&name, ctx.ty(main.aval(var))?);
        ctx.builder.set_path(input.id, call.input_paths.get(i).unwrap_or(&name));
        if let Some(definition) = main.place.stack {
            ctx.builder.set_line(input.id, definition);
        }
        inputs.push(input);
    }
    Ok(inputs)
}

/// Binds each symbol to an input axis whose size is this symbol, or else to an axis from whose size
/// it can be computed, such as `2*B + 1`.
///
/// Runs before anything needs a size. The builder is new, so the ids of the inputs are 0, 1, ….
fn bind_symbols(ctx: &Ctx<'_>, main: &jaxpr::Jaxpr) {
    let mut axes = Vec::new();
    for (i, &var) in main.inputs.iter().enumerate() {
        if let Aval::Array { shape, .. } = main.aval(var) {
            let symbolic = shape.iter().enumerate().filter(|(_, dim)| dim.known().is_none());
            axes.extend(symbolic.map(|(axis, dim)| (dim, onnx::ValueId(i as u32), axis)));
        }
    }
    for &(dim, input, axis) in axes.iter().filter(|(dim, ..)| dim.as_symbol().is_some()) {
        ctx.bind_symbol_of(dim, input, axis);
    }
    // Each iteration can use the symbols that previous iterations bound.
    for _ in 0..axes.len() {
        for &(dim, input, axis) in &axes {
            ctx.bind_symbol_of(dim, input, axis);
        }
    }
}

/// Casts each result to its type in JAX, on the line that computes it.
fn narrow<'g>(
    ctx: &Ctx<'g>,
    main: &jaxpr::Jaxpr,
    results: Vec<Expr<'g>>,
) -> Result<Vec<Expr<'g>>, Refused> {
    let narrow = |(result, atom): (Expr<'g>, &Atom)| {
        let Some(dtype) = main.atom_dtype(atom).filter(|dtype| ctx.widens(dtype)) else {
            return Ok(result);
        };
        let computes = |eqn: &&jaxpr::Eqn| {
            eqn.outputs.iter().any(|&output| matches!(atom, Atom::Var(var) if *var == output))
        };
        let eqn = main.eqns.iter().rev().find(computes);
        let place = eqn.map_or(main.place, |eqn| eqn.place);
        let primitive = eqn.map_or_else(|| "output".into(), |eqn| eqn.primitive.clone());
        let entered =
            ctx.builder.enter_plugin(ctx.place(place, SourceContext::default()), &primitive);
        let narrowed = ctx.exactly(|| ctx.as_computed(result, &dtype));
        ctx.builder.leave(entered);
        narrowed
    };
    results.into_iter().zip(&main.outputs).map(narrow).collect()
}

/// Copies a result if it is an input, a constant or already an output, because each output must be
/// a separate value.
fn outputs<'g>(
    builder: &'g Builder,
    inputs: &[Expr<'g>],
    results: Vec<Expr<'g>>,
    call: &Call,
) -> Vec<Expr<'g>> {
    let mut taken: Vec<onnx::ValueId> = inputs.iter().map(|input| input.id).collect();
    let mut outputs = Vec::new();
    for (i, result) in results.into_iter().enumerate() {
        let is_taken = taken.contains(&result.id) || result.tensor().is_some();
        let output = if is_taken { result.identity() } else { result };
        taken.push(output.id);
        let name = call.output_names.get(i).cloned().unwrap_or_else(|| format!("out_{i}"));
        builder.set_name(output.id, &name);
        builder.set_path(output.id, call.output_paths.get(i).unwrap_or(&name));
        outputs.push(output);
    }
    outputs
}

/// Adds the domains of the functions, in the order of first use.
fn add_domains(opsets: &mut Vec<(Arc<str>, i64)>, functions: &[Function]) {
    for function in functions {
        if !opsets.iter().any(|(domain, _)| *domain == function.domain) {
            opsets.push((function.domain.clone(), 1));
        }
    }
}

/// Returns the IR version: the one that was released with the opset, but at least 10, which has
/// metadata on nodes.
fn ir_version(opset: i64) -> i64 {
    match opset {
        ..=22 => 10,
        23 => 11,
        24 => 12,
        _ => 13,
    }
}

#[cfg(test)]
mod tests {
    use provenance::render::callsite;

    use super::*;

    /// Returns the call site of each node.
    fn callsites(jaxpr: &str) -> Vec<String> {
        let program = jaxpr::parse(jaxpr).expect("the jaxpr of a test can be parsed");
        let model = lower(program, &Options::default(), &Call::default())
            .expect("the jaxpr of a test can be lowered");
        let table = &model.provenance;
        let nodes = model.graph.nodes.iter();
        let sites = nodes.map(|node| table.get_origin(model.origin_of(node)).primary);
        sites.map(|site| callsite(table, site).unwrap_or_default()).collect()
    }

    #[test]
    fn a_node_without_a_user_line_has_the_line_of_the_function() {
        let sites = callsites(
            r#"jaxpr f(a:f32[2]) @ "model.py":3 in f {
                 b:f32[2] = sin a @ internal "lax.py":9 in sin < "model.py":4 in f
                 c:f32[2] = neg b @ internal "batching.py":7 in matchaxis
                 d:f32[2] = exp c
                 return d
               }"#,
        );
        assert_eq!(sites, ["f:4", "f:3", "f:3"]);
    }
}
