//! `jax2onnx plugins`: lists the primitives that can be converted.

use std::io::{self, Write};

use inspect::Style;
use lowering::{EmittedOps, PLUGINS, Plugin, emitted_ops};
use provenance::render::plugin_name;
use serde_json::{Value, json};

use crate::command::{Answer, Command, Console, Outcome, print_json};
use crate::output::{Format, OutputArgs};

/// List the JAX primitives that jax2onnx converts
///
/// For each primitive, shows the name of its plugin (`pkg.jax2onnx.plugin` in the metadata), the source line of
/// the plugin, the ONNX operators that it emits, and its limits.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  jax2onnx plugins\n  jax2onnx plugins dot_general conv\n  jax2onnx plugins sin --format json"
)]
pub(crate) struct Args {
    /// Show only primitives whose names contain one of these
    #[arg(value_name = "PRIMITIVE")]
    names: Vec<String>,
    #[command(flatten)]
    output: OutputArgs,
}

/// The plugins whose names match.
struct Matching(Vec<&'static Plugin>);

impl Command for Args {
    fn format(&self) -> Format {
        self.output.format
    }

    fn run<'a>(&'a self, console: &mut Console<'_>) -> anyhow::Result<Box<dyn Answer + 'a>> {
        let names = &self.names;
        let is_wanted = |plugin: &&Plugin| {
            names.is_empty() || names.iter().any(|name| plugin.primitive.contains(name.as_str()))
        };
        let found: Vec<&Plugin> = PLUGINS.iter().filter(is_wanted).collect();
        if found.is_empty() {
            writeln!(console.err, "no primitive matches {}", names.join(", "))?;
        }
        Ok(Box::new(Matching(found)))
    }
}

impl Answer for Matching {
    fn outcome(&self) -> Outcome {
        Outcome::found(!self.0.is_empty())
    }

    fn print(&self, console: &mut Console<'_>) -> io::Result<()> {
        self.0.iter().try_for_each(|plugin| print(plugin, console.style, console.out))
    }

    fn print_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let plugins: Vec<Value> = self.0.iter().map(|plugin| describe(plugin)).collect();
        print_json(out, &json!({ "version": 1, "plugins": plugins }))
    }
}

fn print(plugin: &Plugin, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let (file, line) = (plugin.line.file(), plugin.line.line());
    let title = format!("{}  {}  {file}:{line}", plugin.primitive, plugin_name(plugin.primitive));
    let title = style.wrapped(&title, 0, INDENT.len());
    title.iter().try_for_each(|line| writeln!(out, "{}", line.trim_end()))?;
    let EmittedOps { real, complex } = emitted_ops(plugin.primitive);
    if !real.is_empty() {
        print_list("emits ", real, style, out)?;
    }
    if !complex.is_empty() {
        let also = if real.is_empty() { "" } else { "also " };
        print_list(&format!("for complex numbers {also}"), complex, style, out)?;
    }
    plugin.limits.iter().try_for_each(|limit| {
        let lines = style.wrapped(&format!("limit: {limit}"), INDENT.len(), 2);
        lines.iter().try_for_each(|line| writeln!(out, "{INDENT}{line}"))
    })
}

/// The indentation of the operators that a plugin emits.
const INDENT: &str = "    ";

/// Prints operators on as many lines as they need.
fn print_list(title: &str, ops: &[&str], style: Style, out: &mut dyn Write) -> io::Result<()> {
    let lines = style.wrapped(&format!("{title}{}", ops.join(", ")), INDENT.len(), 2);
    lines.iter().try_for_each(|line| writeln!(out, "{INDENT}{line}"))
}

fn describe(plugin: &Plugin) -> Value {
    json!({
        "primitive": plugin.primitive,
        "plugin": plugin_name(plugin.primitive),
        "file": plugin.line.file(),
        "line": plugin.line.line(),
        "ops": emitted_ops(plugin.primitive).real,
        "complex_ops": emitted_ops(plugin.primitive).complex,
        "limits": plugin.limits,
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    /// Compares the exit code, standard output and standard error.
    fn check(arguments: &[&str], expect: &Expect) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let program = std::iter::once("jax2onnx").chain(arguments.iter().copied());
        let code = crate::run(
            program.map(Into::into).collect(),
            &mut out,
            &mut err,
            crate::Screen::plain(),
            None,
        );
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        // Line numbers change with every line above them.
        let out = text(out).lines().map(without_line).collect::<Vec<_>>().join("\n");
        expect.assert_eq(&format!("exit {code}\n{out}\n{}", text(err)));
    }

    fn without_line(line: &str) -> String {
        match (line.split_once("plugins.rs:"), line.contains("\"line\"")) {
            (Some((before, _)), _) => format!("{before}plugins.rs"),
            (_, true) => "      \"line\": …,".into(),
            _ => line.to_owned(),
        }
    }

    #[test]
    fn a_plugin_is_shown_with_its_place_its_operators_and_its_limits() {
        check(
            &["plugins", "logistic"],
            &expect![[r#"
                exit 0
                logistic  LogisticPlugin  crates/lowering/src/plugins.rs
                    emits Add, Cast, Exp, Neg, Reciprocal, Sigmoid
                    for complex numbers also Abs, And, Concat, Cos, Div, Equal, Gather, IsInf, IsNaN, Less, Mul, Or, Sin, Sub, Where
                    limit: in float32, the absolute error in ONNX Runtime is 6·10⁻⁸, and the result below -18 is 0
            "#]],
        );
    }

    #[test]
    fn programs_get_the_same_as_json() {
        check(
            &["plugins", "atan2", "--format", "json"],
            &expect![[r#"
                exit 0
                {
                  "version": 1,
                  "plugins": [
                    {
                      "primitive": "atan2",
                      "plugin": "Atan2Plugin",
                      "file": "crates/lowering/src/plugins.rs",
                      "line": …,
                      "ops": [
                        "Abs",
                        "Add",
                        "Atan",
                        "Cast",
                        "Div",
                        "Equal",
                        "Greater",
                        "Less",
                        "Mul",
                        "Neg",
                        "Or",
                        "Reciprocal",
                        "Sign",
                        "Sub",
                        "Where"
                      ],
                      "complex_ops": [],
                      "limits": []
                    }
                  ]
                }
            "#]],
        );
    }

    #[test]
    fn a_missing_primitive_is_reported_with_exit_code_1() {
        check(
            &["plugins", "no_such_primitive"],
            &expect![[r#"
            exit 1

            no primitive matches no_such_primitive
        "#]],
        );
    }

    #[test]
    fn a_wrong_word_is_an_error() {
        check(
            &["plugin"],
            &expect![[r#"
                exit 2

                error: unrecognized subcommand 'plugin'

                  tip: some similar subcommands exist: 'explain', 'plugins'

                Usage: jax2onnx <COMMAND>

                For more information, try '--help'.
            "#]],
        );
    }
}
