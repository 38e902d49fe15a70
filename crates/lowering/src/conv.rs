//! Convolutions.

mod product;
mod transposed;

use onnx::{Attr, DType, Dim, Expr, OpType};

use crate::bytes;
use crate::ctx::{Ctx, Eqn};
use crate::dot_general::compute_type;
use crate::error::{Refused, Result};
use crate::shape::pad_around;
use crate::window::slide::Slide;

/// A convolution with operands in the order of ONNX: batch, channels, then spatial axes.
struct Convolution<'g> {
    lhs: Expr<'g>,
    /// The axes are: channels of the result, channels of one group, then spatial axes.
    rhs: Expr<'g>,
    /// The sliding window along each spatial axis.
    slides: Vec<Slide>,
    /// True for each spatial axis along which the window has a symbolic size. There, the result and
    /// the window are exchanged: the result slides over the window. Only the matrix product
    /// supports this.
    exchanged: Vec<bool>,
    groups: i64,
    /// The zero points of both operands, if these are bytes.
    zeros: Option<[Expr<'g>; 2]>,
    /// The shape of the result, in the order of ONNX.
    shape: Vec<Dim>,
}

/// `out[n, o, s…] = Σ_{c, k…} lhs[n, c, s·stride + k·dilation − low…] · rhs[o, c, k…]`, where `lhs`
/// is dilated too
///
/// In single precision, this becomes a `Conv`, or a `ConvTranspose` if `lhs` is dilated. A convolution of bytes becomes a
/// `ConvInteger`. In other types, it becomes a matrix product.
pub(crate) fn conv_general_dilated<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let strides: Vec<i64> = eqn.param("window_strides")?;
    let padding: Vec<(Dim, Dim)> = eqn.param("padding")?;
    let lhs_dilation: Vec<i64> = eqn.param("lhs_dilation")?;
    let rhs_dilation: Vec<i64> = eqn.param("rhs_dilation")?;
    let groups: i64 = eqn.param("feature_group_count")?;
    let batch_groups: i64 = eqn.param("batch_group_count")?;
    let [lhs_order, rhs_order, out_order] = orders(eqn)?;
    // The type of the result already follows the preferred type, and the precision is a hint.
    eqn.ignore(&["precision", "preferred_element_type"]);
    let [lhs, rhs] = eqn.operands()?;
    let result = eqn.output()?;

    let compute = match compute_type(lhs.dtype(), rhs.dtype(), result.dtype, &Dim::Known(1)) {
        dtype if dtype.is_float() && dtype != DType::F64 => DType::F32,
        dtype => dtype,
    };
    let shape: Vec<Dim> = out_order.iter().map(|&axis| result.shape[axis].clone()).collect();
    let (mut slides, mut exchanged) = (Vec::new(), Vec::new());
    for (i, &axis) in rhs_order[2..].iter().enumerate() {
        let (size, is_exchanged) = match (rhs.shape()[axis].known(), shape[i + 2].known()) {
            (Some(size), _) => (size, false),
            (None, Some(count)) => (count, true),
            (None, None) => {
                let what = format!("{} with a window of unknown size", eqn.primitive);
                return Err(Refused::NoCounterpart { what }.into());
            }
        };
        let mut steps = (strides[i], rhs_dilation[i]);
        if is_exchanged {
            steps = (steps.1, steps.0);
        }
        slides.push(Slide {
            size,
            stride: steps.0,
            padding: (ctx.dim(&padding[i].0)?, ctx.dim(&padding[i].1)?),
            base_dilation: lhs_dilation[i],
            window_dilation: steps.1,
        });
        exchanged.push(is_exchanged);
    }
    let is_plain = !slides.is_empty()
        && !exchanged.contains(&true)
        && slides.iter().all(|slide| slide.base_dilation == 1);
    let is_of_bytes =
        is_plain && bytes::multiplies(ctx, OpType::ConvInteger, lhs, rhs, result.dtype);
    let (lhs, rhs, zeros) = if is_of_bytes {
        let ((lhs, zero_of_lhs), (rhs, zero_of_rhs)) = (bytes::unsigned(lhs), bytes::unsigned(rhs));
        (lhs, rhs, Some([zero_of_lhs, zero_of_rhs]))
    } else {
        (lhs.cast(compute), rhs.cast(compute), None)
    };
    let mut conv = Convolution {
        lhs: lhs.transpose(&lhs_order),
        rhs: rhs.transpose(&rhs_order),
        slides,
        exchanged,
        groups,
        zeros,
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

/// Returns the axes of the operands and of the result, each as batch, channels, spatial axes.
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

impl<'g> Convolution<'g> {
    fn lower(&self) -> Expr<'g> {
        let is_empty = |dims: &[Dim]| dims.iter().any(|dim| dim.is(0));
        if is_empty(&self.shape) || is_empty(&self.lhs.shape()) || is_empty(&self.rhs.shape()) {
            return self.lhs.constant(0.0).expand(&self.shape);
        }
        let is_exchanged = self.exchanged.contains(&true);
        let has_kernel = self.lhs.dtype() == DType::F32 || self.zeros.is_some();
        let has_operator = has_kernel && !self.slides.is_empty() && !is_exchanged;
        let is_dilated = self.slides.iter().any(|slide| slide.base_dilation != 1);
        match (has_operator, is_dilated) {
            (true, false) => self.operator(),
            (true, true) => self.transposed().unwrap_or_else(|| self.product()),
            (false, _) => self.product(),
        }
    }

    /// Turns groups of the batch into groups of channels: `lhs[g·n + i, c]` becomes `lhs[i, g·c]`.
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

    /// <https://onnx.ai/onnx/operators/onnx__Conv.html>,
    /// <https://onnx.ai/onnx/operators/onnx__ConvInteger.html>
    ///
    /// The attribute for padding can only add known numbers of elements. If padding removes
    /// elements or is symbolic, a `Pad` or `Slice` precedes the `Conv`. Padding has the value of the zero point.
    fn operator(&self) -> Expr<'g> {
        let builder = self.lhs.builder;
        let is_named = self.slides.iter().any(|slide| slide.known_padding().is_none());
        let is_attribute = |side: &Dim| !is_named && side.is_at_least(0);
        let mut shape = self.lhs.shape().to_vec();
        let mut before = vec![(Dim::Known(0), Dim::Known(0)); 2];
        let mut pads = vec![0; 2 * self.slides.len()];
        for (i, slide) in self.slides.iter().enumerate() {
            let mut rest = slide.padding.clone();
            for (place, side) in [(i, &mut rest.0), (i + self.slides.len(), &mut rest.1)] {
                if is_attribute(side) {
                    pads[place] = side.known().unwrap_or(0);
                    *side = Dim::Known(0);
                }
            }
            shape[i + 2] = builder.sum(&shape[i + 2], &builder.sum(&rest.0, &rest.1));
            before.push(rest);
        }
        let x = pad_around(self.lhs, &before, self.zeros.map(|[zero, _]| zero), &shape);
        let mut attrs = self.attrs(|slide| slide.stride);
        if pads.iter().any(|&pad| pad != 0) {
            attrs.push(("pads", pads[..].into()));
        }
        match self.zeros {
            Some([of_x, of_rhs]) => {
                let operands = [x, self.rhs, of_x, of_rhs];
                builder.sized_node(OpType::ConvInteger, &operands, attrs, &self.shape)
            }
            None => builder.sized_node(OpType::Conv, &[x, self.rhs], attrs, &self.shape),
        }
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
    fn a_convolution_in_the_layout_of_onnx_is_one_node() {
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
    fn another_layout_is_transposed_before_and_after() {
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
    fn a_dilated_array_becomes_a_transposed_convolution() {
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
    fn a_convolution_of_bytes_is_one_of_unsigned_bytes() {
        let params = "window_strides=[2]; padding=[(1, 1)]; lhs_dilation=[1]; rhs_dilation=[1]; \
                      feature_group_count=1";
        check(
            &conv("i8[B,3,8] i8[4,3,3] i32[B,4,4]", NCHW, params),
            expect![[r#"
            graph test(in_0:i8[B,3,8], in_1:i8[4,3,3]) -> (out_0)
            %0 = Cast(in_0) {to=2}
            %1 = BitwiseXor(%0, 128:u8)
            %2 = Cast(in_1) {to=2}
            %3 = BitwiseXor(%2, 128:u8)
            out_0:i32[B,4,4] = ConvInteger(%1, %3, 128:u8, 128:u8) {kernel_shape=[3], pads=[1, 1], strides=[2]}
        "#]],
        );
    }

    #[test]
    fn padding_of_bytes_that_is_cut_has_the_value_of_the_zero_point() {
        let params = "window_strides=[1]; padding=[(-1, 2)]; lhs_dilation=[1]; rhs_dilation=[1]; \
                      feature_group_count=1";
        check(
            &conv("i8[2,3,8] u8[4,3,3] i32[2,4,7]", NCHW, params),
            expect![[r#"
            graph test(in_0:i8[2,3,8], in_1:u8[4,3,3]) -> (out_0)
            %0 = Cast(in_0) {to=2}
            %1 = BitwiseXor(%0, 128:u8)
            %2 = Slice(%1, [1]:i64, [9223372036854775807]:i64, [2]:i64)
            out_0:i32[2,4,7] = ConvInteger(%2, in_1, 128:u8, 0:u8) {kernel_shape=[3], pads=[0, 2]}
        "#]],
        );
    }

    #[test]
    fn a_dilated_array_of_bytes_is_a_product() {
        let params = "window_strides=[1]; padding=[(2, 1)]; lhs_dilation=[2]; rhs_dilation=[1]; \
                      feature_group_count=1";
        check(
            &conv("i8[1,1,4] i8[1,1,3] i32[1,1,8]", NCHW, params),
            expect![[r#"
            graph test(in_0:i8[1,1,4], in_1:i8[1,1,3]) -> (out_0)
            %0 = Cast(in_0) {to=6}
            %1 = Cast(in_1) {to=6}
            %2 = Pad(%0, [0, 0, 0, 0, 0, 1]:i64, 0:i32)
            %3 = Gather(%2, const i64[8,3]) {axis=2}
            %4 = Reshape(%1, [1, 3]:i64)
            %5 = Transpose(%3) {perm=[0, 1, 3, 2]}
            %6 = Reshape(%5, [1, 3, 8]:i64)
            out_0:i32[1,1,8] = MatMul(%4, %6)
        "#]],
        );
    }

    #[test]
    fn a_convolution_in_double_precision_is_a_product() {
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
