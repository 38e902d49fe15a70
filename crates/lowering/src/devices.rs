//! Lowers collectives for a single device, and drops callbacks without results.

use jaxpr::Param;
use onnx::Expr;

use crate::ctx::{Ctx, Eqn};
use crate::error::{Refused, Result};
use crate::reduce::Monoid;

/// `Σ x` over the axes of a `vmap`; the operand itself over an axis of one device
pub(crate) fn psum<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    over_axes(ctx, eqn, Monoid::Add)
}

/// The maximum over the axes of a `vmap`; the operand itself over an axis of one device.
pub(crate) fn pmax<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    over_axes(ctx, eqn, Monoid::Max)
}

/// The minimum over the axes of a `vmap`; the operand itself over an axis of one device.
pub(crate) fn pmin<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    over_axes(ctx, eqn, Monoid::Min)
}

fn over_axes<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>, monoid: Monoid) -> Result<Vec<Expr<'g>>> {
    eqn.refuse(&["axis_index_groups"])?;
    let (mut axes, mut names) = (Vec::new(), Vec::new());
    for axis in eqn.param::<Vec<Param>>("axes")? {
        match axis {
            Param::Int(axis) => axes.push(usize::try_from(axis).unwrap_or_default()),
            name => names.push(name),
        }
    }
    expect_one_device(ctx, eqn, &names)?;
    eqn.inputs.iter().map(|&x| monoid.reduce(eqn, x, &axes)).collect()
}

/// Returns the index of the device, which is 0.
pub(crate) fn axis_index<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    expect_one_device(ctx, eqn, &names(eqn)?)?;
    Ok(ctx.builder.constant_ints(eqn.output()?.dtype, &[], &[0]))
}

/// Joins the arrays of all devices along an axis: the array of the only device.
pub(crate) fn all_gather<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let axis: usize = eqn.param("all_gather_dimension")?;
    eqn.ignore(&["axis_size"]);
    let is_tiled = is_tiled(ctx, eqn)?;
    Ok(eqn.inputs.iter().map(|x| if is_tiled { *x } else { x.unsqueeze(&[axis]) }).collect())
}

/// Returns the part of a sum that belongs to this device: the whole sum.
pub(crate) fn reduce_scatter<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let axis: usize = eqn.param("scatter_dimension")?;
    eqn.ignore(&["axis_size"]);
    let is_tiled = is_tiled(ctx, eqn)?;
    Ok(eqn.inputs.iter().map(|x| if is_tiled { *x } else { x.squeeze(&[axis]) }).collect())
}

/// Exchanges parts of an array with other devices: the only device keeps its parts.
pub(crate) fn all_to_all<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let (from, to): (usize, usize) = (eqn.param("split_axis")?, eqn.param("concat_axis")?);
    let is_tiled = is_tiled(ctx, eqn)?;
    let exchanged = |x: &Expr<'g>| if is_tiled { *x } else { x.squeeze(&[from]).unsqueeze(&[to]) };
    Ok(eqn.inputs.iter().map(exchanged).collect())
}

/// Sends arrays to other devices: the only device receives its own array, or zeros if nothing is
/// sent.
pub(crate) fn ppermute<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let pairs: Vec<(i64, i64)> = eqn.param("perm")?;
    expect_one_device(ctx, eqn, &names(eqn)?)?;
    let received = |x: &Expr<'g>| if pairs.is_empty() { *x * 0.0 } else { *x };
    Ok(eqn.inputs.iter().map(received).collect())
}

/// Drops a callback without results, such as `jax.debug.print`, and notes its line.
#[expect(clippy::unnecessary_wraps, reason = "a plugin of the table may fail")]
pub(crate) fn drop_callback<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    eqn.ignore_all();
    ctx.note_dropped();
    Ok(Vec::new())
}

/// Returns the named axes of a collective. Older versions of JAX write a single axis without a
/// list.
fn names(eqn: &Eqn<'_, '_>) -> Result<Vec<Param>> {
    Ok(match eqn.param::<Param>("axis_name")? {
        Param::Seq(names) => names.to_vec(),
        name => vec![name],
    })
}

fn is_tiled(ctx: &Ctx<'_>, eqn: &Eqn<'_, '_>) -> Result<bool> {
    eqn.refuse(&["axis_index_groups"])?;
    expect_one_device(ctx, eqn, &names(eqn)?)?;
    Ok(eqn.param("tiled")?)
}

fn expect_one_device(ctx: &Ctx<'_>, eqn: &Eqn<'_, '_>, names: &[Param]) -> Result<()> {
    let is_single = |name: &Param| matches!(name, Param::Str(name) if ctx.has_one_device(name));
    match names.iter().find(|name| !is_single(name)) {
        None => Ok(()),
        Some(Param::Str(name)) => {
            let what = format!("`{}` over the axis `{name}`", eqn.primitive);
            Err(Refused::Devices { what }.into())
        }
        Some(_) => Err(eqn.broken("an axis without a name").into()),
    }
}
