//! Convolutions.

mod product;
mod transposed;

use onnx::{Attr, DType, Dim, Expr, OpType, Range, Type};

use crate::Refused;
use crate::ctx::{Ctx, Eqn};
use crate::dot_general::compute_type;
use crate::error::Result;
use crate::window::slide::Slide;

/// A convolution whose operands are in the order of ONNX: batch, channels, then space.
struct Convolution<'g> {
    lhs: Expr<'g>,
    /// Channels of the result, channels of one group, then space.
    rhs: Expr<'g>,
    /// The movement of the window along each axis of space.
    slides: Vec<Slide>,
    groups: i64,
    /// The shape of the result, in the order of ONNX.
    shape: Vec<Dim>,
}

/// `out[n, o, s…] = Σ_{c, k…} lhs[n, c, s·stride + k·dilation − low…] · rhs[o, c, k…]`, where `lhs`
/// is spread out by its own dilation
///
/// A `Conv` in single precision where `lhs` is not spread out, a `ConvTranspose` if it is, and a
/// product of matrices in other types.
pub(crate) fn conv_general_dilated<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let strides: Vec<i64> = eqn.param("window_strides")?;
    let padding: Vec<(Dim, Dim)> = eqn.param("padding")?;
    let lhs_dilation: Vec<i64> = eqn.param("lhs_dilation")?;
    let rhs_dilation: Vec<i64> = eqn.param("rhs_dilation")?;
    let groups: i64 = eqn.param("feature_group_count")?;
    let batch_groups: i64 = eqn.param("batch_group_count")?;
    let [lhs_order, rhs_order, out_order] = orders(eqn)?;
    // The result's type says what is preferred; precision is a hint, and where an array lives does
    // not change the numbers.
    eqn.ignore(&["precision", "preferred_element_type", "out_sharding"]);
    let [lhs, rhs] = eqn.operands()?;
    let result = eqn.output()?;

    let compute = match compute_type(lhs.dtype(), rhs.dtype(), result.dtype, &Dim::Known(1)) {
        dtype if dtype.is_float() && dtype != DType::F64 => DType::F32,
        dtype => dtype,
    };
    let window = window_of(eqn, rhs, &rhs_order[2..])?;
    let mut slides = Vec::new();
    for (i, size) in window.into_iter().enumerate() {
        slides.push(Slide {
            size,
            stride: strides[i],
            padding: (ctx.dim(&padding[i].0)?, ctx.dim(&padding[i].1)?),
            base_dilation: lhs_dilation[i],
            window_dilation: rhs_dilation[i],
        });
    }
    let shape: Vec<Dim> = out_order.iter().map(|&axis| result.shape[axis].clone()).collect();
    let mut conv = Convolution {
        lhs: lhs.cast(compute).transpose(&lhs_order),
        rhs: rhs.cast(compute).transpose(&rhs_order),
        slides,
        groups,
        shape,
    };
    if batch_groups > 1 {
        conv.join_batch_groups(batch_groups);
    }
    let mut back = vec![0; out_order.len()];
    for (i, &axis) in out_order.iter().enumerate() {
        back[axis] = i;
    }
    Ok(conv.lower().transpose(&back).cast(result.dtype))
}

/// Returns the axes of operands and result, each as batch, channels, space.
fn orders(eqn: &Eqn<'_, '_>) -> Result<[Vec<usize>; 3]> {
    let numbers: jaxpr::Param = eqn.param("dimension_numbers")?;
    let order = |name: &str| -> Result<Vec<usize>> {
        let field = numbers.field(name).and_then(<Vec<usize> as jaxpr::FromParam>::from_param);
        let order = field.filter(|order| order.len() >= 2);
        Ok(order.ok_or_else(|| {
            eqn.broken("the dimension numbers do not contain the axes of an operand")
        })?)
    };
    Ok([order("lhs_spec")?, order("rhs_spec")?, order("out_spec")?])
}

/// Returns the sizes of the window.
fn window_of(eqn: &Eqn<'_, '_>, rhs: Expr<'_>, axes: &[usize]) -> Result<Vec<i64>> {
    let shape = rhs.shape();
    let known: Option<Vec<i64>> = axes.iter().map(|&axis| shape[axis].known()).collect();
    Ok(known.ok_or_else(|| Refused::NoCounterpart {
        what: format!("{} with a window of unknown size", eqn.primitive),
    })?)
}

impl<'g> Convolution<'g> {
    fn lower(&self) -> Expr<'g> {
        let is_empty = |dims: &[Dim]| dims.iter().any(|dim| dim.is(0));
        if is_empty(&self.shape) || is_empty(&self.lhs.shape()) || is_empty(&self.rhs.shape()) {
            return self.lhs.constant(0.0).expand(&self.shape);
        }
        let has_operator = self.lhs.dtype() == DType::F32 && !self.slides.is_empty();
        let is_spread = self.slides.iter().any(|slide| slide.base_dilation != 1);
        match (has_operator, is_spread) {
            (true, false) => self.operator(),
            (true, true) => self.transposed().unwrap_or_else(|| self.product()),
            (false, _) => self.product(),
        }
    }

    /// `lhs[g·n + i, c]` becomes `lhs[i, g·c]`: groups of the batch become groups of channels.
    fn join_batch_groups(&mut self, groups: i64) {
        let shape = self.lhs.shape();
        let apart = [&[Dim::Known(groups), self.shape[0].clone()], &shape[1..]].concat();
        let mut order: Vec<usize> = (0..apart.len()).collect();
        order.swap(0, 1);
        let channels = self.lhs.builder.product(&[Dim::Known(groups), shape[1].clone()]);
        let joined = [&[self.shape[0].clone(), channels], &shape[2..]].concat();
        self.lhs = self.lhs.reshape(&apart).transpose(&order).reshape(&joined);
        self.groups = groups;
    }

    /// <https://onnx.ai/onnx/operators/onnx__Conv.html>
    ///
    /// Its padding is a number of elements to add: what is to be cut off is cut off before, and what
    /// depends on a size is added before.
    fn operator(&self) -> Expr<'g> {
        let x = self.cut().padded_by_name(self);
        let sides = |of: fn(&(Dim, Dim)) -> &Dim| {
            self.slides.iter().map(move |slide| of(&slide.padding).known().unwrap_or(0).max(0))
        };
        let mut pads: Vec<i64> =
            sides(|padding| &padding.0).chain(sides(|padding| &padding.1)).collect();
        if self.has_named_padding() {
            pads.fill(0);
        }
        let mut attrs = self.attrs(|slide| slide.stride);
        if pads.iter().any(|&pad| pad != 0) {
            attrs.push(("pads", pads[..].into()));
        }
        let ty = Type::new(DType::F32, &self.shape[..]);
        x.builder.node(OpType::Conv, &[x, self.rhs], attrs, ty)
    }

    /// True if the amount of padding depends on a size.
    fn has_named_padding(&self) -> bool {
        self.slides.iter().any(|slide| slide.known_padding().is_none())
    }

    /// Returns the attributes that `Conv` and `ConvTranspose` share, without those at their
    /// defaults.
    fn attrs(&self, stride: fn(&Slide) -> i64) -> Vec<(&'static str, Attr)> {
        let list = |of: fn(&Slide) -> i64| self.slides.iter().map(of).collect::<Vec<i64>>();
        let mut attrs = vec![("kernel_shape", list(|slide| slide.size)[..].into())];
        let of_axes =
            [("strides", list(stride)), ("dilations", list(|slide| slide.window_dilation))];
        for (name, values) in of_axes {
            if values.iter().any(|&value| value != 1) {
                attrs.push((name, values[..].into()));
            }
        }
        if self.groups != 1 {
            attrs.push(("group", Attr::Int(self.groups)));
        }
        attrs
    }

    /// Returns the left operand without what negative padding takes away.
    fn cut(&self) -> Input<'g> {
        let mut shape = self.lhs.shape().to_vec();
        let mut ranges = vec![Range::whole(); shape.len()];
        for (i, slide) in self.slides.iter().enumerate() {
            let below_zero = |dim: &Dim| dim.known().unwrap_or(0).min(0);
            let (low, high) = (below_zero(&slide.padding.0), below_zero(&slide.padding.1));
            let end = if high < 0 { high } else { i64::MAX };
            ranges[i + 2] = Range { start: Dim::Known(-low), end: Dim::Known(end), step: 1 };
            let taken = Dim::Known(-low - high);
            shape[i + 2] = self.lhs.builder.difference(&shape[i + 2], &taken);
        }
        Input(self.lhs.slice(&ranges, &shape))
    }
}

/// The operand of a convolution, in the order of axes of the operator.
struct Input<'g>(Expr<'g>);

impl<'g> Input<'g> {
    /// Adds zeros around the operand, if their number depends on a size.
    fn padded_by_name(self, conv: &Convolution<'g>) -> Expr<'g> {
        let x = self.0;
        if !conv.has_named_padding() {
            return x;
        }
        let builder = x.builder;
        let mut shape = x.shape().to_vec();
        let mut amounts = vec![Dim::Known(0); 2 * shape.len()];
        let rank = shape.len();
        for (i, slide) in conv.slides.iter().enumerate() {
            let added = |dim: &Dim| match dim {
                Dim::Known(amount) => Dim::Known((*amount).max(0)),
                Dim::Symbolic(_) => dim.clone(),
            };
            let (low, high) = (added(&slide.padding.0), added(&slide.padding.1));
            let both = builder.sum(&low, &high);
            shape[i + 2] = builder.sum(&shape[i + 2], &both);
            amounts[i + 2] = low;
            amounts[rank + i + 2] = high;
        }
        let amounts = builder.sizes(&amounts);
        builder.node(OpType::Pad, &[x, amounts], Vec::new(), Type::new(x.dtype(), shape))
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    /// Returns a convolution of the operands with the parameters that the test is about.
    fn conv(types: &str, specs: &str, params: &str) -> String {
        let [lhs, rhs, out] = [0, 1, 2].map(|i| types.split(' ').nth(i).unwrap_or_default());
        format!(
            "x:{lhs} w:{rhs} -> y:{out} = conv_general_dilated{{{params}; \
             dimension_numbers=ConvDimensionNumbers({specs}); batch_group_count=1; \
             precision=None; preferred_element_type=None}} x w"
        )
    }

    const NCHW: &str = "lhs_spec=[0, 1, 2], rhs_spec=[0, 1, 2], out_spec=[0, 1, 2]";
    const NWC: &str = "lhs_spec=[0, 2, 1], rhs_spec=[2, 1, 0], out_spec=[0, 2, 1]";

    #[test]
    fn in_the_layout_of_onnx_it_is_one_node() {
        let params = "window_strides=[2]; padding=[(1, 1)]; lhs_dilation=[1]; rhs_dilation=[1]; \
                      feature_group_count=1";
        check(
            &conv("f32[B,3,8] f32[4,3,3] f32[B,4,4]", NCHW, params),
            expect![[r#"
            graph test(in_0:f32[B,3,8], in_1:f32[4,3,3]) -> (out_0)
            out_0:f32[B,4,4] = Conv(in_0, in_1) {kernel_shape=[3], pads=[1, 1], strides=[2]}
        "#]],
        );
    }

    #[test]
    fn another_layout_is_transposed_around_it() {
        let params = "window_strides=[1]; padding=[(0, 0)]; lhs_dilation=[1]; rhs_dilation=[2]; \
                      feature_group_count=3";
        check(
            &conv("f32[2,8,3] f32[3,1,6] f32[2,4,6]", NWC, params),
            expect![[r#"
            graph test(in_0:f32[2,8,3], in_1:f32[3,1,6]) -> (out_0)
            %0 = Transpose(in_0) {perm=[0, 2, 1]}
            %1 = Transpose(in_1) {perm=[2, 1, 0]}
            %2 = Conv(%0, %1) {dilations=[2], group=3, kernel_shape=[3]}
            out_0:f32[2,4,6] = Transpose(%2) {perm=[0, 2, 1]}
        "#]],
        );
    }

    #[test]
    fn negative_padding_is_cut_before() {
        let params = "window_strides=[1]; padding=[(-1, 2)]; lhs_dilation=[1]; rhs_dilation=[1]; \
                      feature_group_count=1";
        check(
            &conv("f32[2,3,8] f32[4,3,3] f32[2,4,7]", NCHW, params),
            expect![[r#"
            graph test(in_0:f32[2,3,8], in_1:f32[4,3,3]) -> (out_0)
            %0 = Slice(in_0, [1]:i64, [9223372036854775807]:i64, [2]:i64)
            out_0:f32[2,4,7] = Conv(%0, in_1) {kernel_shape=[3], pads=[0, 2]}
        "#]],
        );
    }

    #[test]
    fn an_array_that_is_spread_out_is_a_transposed_convolution() {
        let params = "window_strides=[1]; padding=[(2, 1)]; lhs_dilation=[2]; rhs_dilation=[1]; \
                      feature_group_count=1";
        check(
            &conv("f32[2,3,8] f32[4,3,3] f32[2,4,16]", NCHW, params),
            expect![[r#"
            graph test(in_0:f32[2,3,8], in_1:f32[4,3,3]) -> (out_0)
            %0 = Slice(in_1, [-1]:i64, [-9223372036854775808]:i64, [2]:i64, [-1]:i64)
            %1 = Transpose(%0) {perm=[1, 0, 2]}
            out_0:f32[2,4,16] = ConvTranspose(in_0, %1) {kernel_shape=[3], pads=[0, 1], strides=[2]}
        "#]],
        );
    }

    #[test]
    fn in_double_precision_it_is_a_product() {
        let params = "window_strides=[1]; padding=[(1, 0)]; lhs_dilation=[1]; rhs_dilation=[1]; \
                      feature_group_count=1";
        check(
            &conv("f64[2,3,4] f64[4,3,2] f64[2,4,4]", NCHW, params),
            expect![[r#"
            graph test(in_0:f64[2,3,4], in_1:f64[4,3,2]) -> (out_0)
            %0 = Pad(in_0, [0, 0, 0, 0, 0, 1]:i64, 0.0:f64)
            %1 = Gather(%0, [[4, 0], [0, 1], [1, 2], [2, 3]]:i64) {axis=2}
            %2 = Reshape(in_1, [4, 6]:i64)
            %3 = Transpose(%1) {perm=[0, 1, 3, 2]}
            %4 = Reshape(%3, [2, 6, 4]:i64)
            out_0:f64[2,4,4] = MatMul(%2, %4)
        "#]],
        );
    }
}
