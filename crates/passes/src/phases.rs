//! Lists the phases, and the rewrites of each phase.

use algebra::rewrite::{APPLIED, FUSED, Formulas, Rewrite, RewriteNode};
use loops::{bound_counters, drop_carries, recurrent};
use onnx::{Edit, Label, Model};
use options::Options;

use crate::formulas::{
    activation, choice, keep_axes, merge_affine, norm, pool, reduction, softmax, split_means,
    thresholded_relu, uniform,
};
use crate::guard::{drop_unread_inputs, faults, keep_zero_signs, share_functions, store_once};
use crate::indices::{division, index, place, reciprocals, resize, tables};
use crate::layout::attention::{self, Stage};
use crate::layout::{fold_layout_ops, fold_products, rotary, small_axes};
use crate::operators::{
    batch_norm, causal_conv, dequantize, gemm, keep_entries, pad, shape_constants, split_products,
};
use crate::share::{hoist_invariants, lift_weights, share_constants};
use crate::{canonicalize, layout, layout_ops};

/// Rewrites that belong together.
pub struct Phase {
    pub name: &'static str,
    /// The reason for its position.
    pub because: &'static str,
    pub rewrites: &'static [Pass],
    /// True if the graph is canonicalized after each change.
    pub(crate) is_canonical: bool,
    /// The rewrites run again while they change something, up to this limit.
    pub(crate) max_iterations: usize,
}

/// A rewrite.
pub struct Pass {
    pub name: &'static str,
    /// A description for the catalog.
    pub does: &'static str,
    pub(crate) run: Run,
    pub(crate) when: When,
    /// The word for its effect on a node, such as "fused".
    done: &'static str,
}

pub(crate) enum Run {
    /// Rewrites one node at a time, also in bodies and functions.
    Nodes(RewriteNode),
    /// Rewrites one graph at a time, also bodies and functions.
    Graph(fn(&mut Edit<'_>)),
    /// Rewrites one graph at a time, and reads the options of the export.
    Configured(fn(&mut Edit<'_>, &Options)),
    /// Matches patterns.
    Formulas(&'static [&'static Formulas]),
    /// Rewrites the model as a whole.
    Model(fn(&mut Model)),
    /// Moves nodes from one graph to another. Returns whether any graph changed.
    Between(fn(&mut Model) -> bool),
}

/// The options with which a rewrite runs.
pub(crate) enum When {
    Optimizing,
    FusingNorms,
    /// Always runs: without it, the model would be incorrect.
    Always,
}

const fn pass(name: &'static str, does: &'static str, run: Run) -> Pass {
    Pass { name, does, run, when: When::Optimizing, done: APPLIED }
}

const fn nodes(name: &'static str, does: &'static str, run: RewriteNode) -> Pass {
    pass(name, does, Run::Nodes(run))
}

const fn graph(name: &'static str, does: &'static str, run: fn(&mut Edit<'_>)) -> Pass {
    pass(name, does, Run::Graph(run))
}

const fn formulas(
    name: &'static str,
    does: &'static str,
    formulas: &'static [&'static Formulas],
) -> Pass {
    pass(name, does, Run::Formulas(formulas))
}

const fn model(name: &'static str, does: &'static str, run: fn(&mut Model)) -> Pass {
    pass(name, does, Run::Model(run))
}

const fn between(name: &'static str, does: &'static str, run: fn(&mut Model) -> bool) -> Pass {
    pass(name, does, Run::Between(run))
}

impl Pass {
    /// Returns the patterns that the pass looks for. It is empty for a pass without patterns.
    pub fn formulas(&self) -> impl Iterator<Item = &'static Rewrite> {
        let formulas = match self.run {
            Run::Formulas(formulas) => formulas,
            _ => &[],
        };
        formulas.iter().flat_map(|formulas| formulas.rewrites())
    }

    /// Returns the label of its notes.
    pub(crate) fn label(&self) -> Label {
        Label { name: self.name, done: self.done }
    }

    /// Makes its notes say that nodes were fused.
    const fn fusing(self) -> Pass {
        Pass { done: FUSED, ..self }
    }

    const fn when(self, when: When) -> Pass {
        Pass { when, ..self }
    }
}

const fn phase(name: &'static str, because: &'static str, rewrites: &'static [Pass]) -> Phase {
    Phase { name, because, rewrites, is_canonical: true, max_iterations: 1 }
}

impl Phase {
    const fn raw(self) -> Phase {
        Phase { is_canonical: false, ..self }
    }

    const fn iterations(self, max_iterations: usize) -> Phase {
        Phase { max_iterations, ..self }
    }
}

/// The name of the only rewrite that no trial can leave out: it is the last one that reads composites.
pub(crate) const INLINE_COMPOSITES: &str = "inline-composites";

/// The phases in the order they run, with one rewrite per line.
#[rustfmt::skip]
pub static PHASES: &[Phase] = &[
    phase(
        "prune",
        "Dead code is removed first, so that no other node inherits its lines. The lines that read each weight \
         are noted while each line still has separate nodes. Then the graph becomes canonical and stays \
         canonical, so that every later phase needs to match only one form.",
        &[
            graph("drop-dead", "drops nodes that no output needs", |edit| edit.drop_unread()),
            model("drop-carries", "drops loop state that no result needs", drop_carries::run),
            graph("bound-counters", "notes the bounds of loop counters", bound_counters::run),
            model("note-captures", "notes which lines read each weight", Model::note_captures),
            model("interleave-halves", "writes two arrays whose entries alternate along an axis as one `Concat`", layout_ops::interleave::run),
            graph("canonicalize", "applies the rules of canonicalization everywhere", canonicalize::everything),
        ],
    )
    .raw(),
    phase(
        "loops",
        "Recurrent cells and pools are matched on the loop bodies and windows that plugins emit, before \
         the fusion of formulas changes their contents.",
        &[
            formulas("fuse-choices", "writes `jnp.select` as a chain of `Where`", &[&choice::REWRITES]),
            nodes("fuse-recurrent", "writes a scan over an LSTM or GRU cell as one operator", recurrent::run).fusing(),
            formulas("fuse-pools", "writes means of windows as `AveragePool`, and maxima of positive numbers without halves", &[&pool::REWRITES]),
        ],
    ),
    phase(
        "formulas",
        "Formulas are matched while each line still has the nodes that its plugin emitted, and while functions \
         of many nodes are composites. Norms come before reductions, because they contain squares and roots \
         that reductions would match. Chains of constants are merged last, when no formula needs their parts.",
        &[
            nodes("keep-axes", "keeps the axes of a reduction if they are restored later", keep_axes::run),
            formulas("fuse-activations", "finds activations such as `Gelu`", &[&activation::REWRITES, &thresholded_relu::REWRITES]),
            formulas("fuse-uniform", "simplifies the conversion of random bits to numbers from 0 to 1", &[&uniform::REWRITES]),
            formulas("fuse-softmax", "finds `Softmax` and `LogSoftmax`", &[&softmax::REWRITES]),
            formulas("fuse-means", "writes a sum divided by its count as a mean", &[&norm::MEANS]),
            formulas("fuse-norms", "finds layer norms, group norms and RMS norms", &[&norm::STAGES]).when(When::FusingNorms),
            nodes("split-means", "writes a mean over an axis that may be empty as a sum and a division", split_means::run),
            formulas("fuse-reductions", "finds reductions such as `ReduceL2` and `ReduceSumSquare`", &[&reduction::STAGES]),
            graph("merge-affine", "merges a chain of sums and products with constants into one product and one sum", merge_affine::run),
        ],
    ),
    phase(
        "indices",
        "When all formulas are fused, composites are inlined. Then indices have their final types, and their \
         bounds are known.",
        &[
            graph(INLINE_COMPOSITES, "replaces each composite by its nodes", |edit| edit.inline_composites()).when(When::Always),
            model("take-deep-branches", "takes branches of constants that crash ONNX Runtime", canonicalize::take_deep_branches).when(When::Always),
            nodes("multiply-by-reciprocals", "multiplies by the reciprocal of a constant or of a number that is broadcast, as XLA does, if a function with steps shows the difference", reciprocals::run).when(When::Always),
            graph("fold-tables", "stores a table that only constants determine, instead of the nodes that compute it", tables::run),
            formulas("fuse-indices", "writes lookups by index as `Gather`, without unnecessary bounds checks", &[&division::REWRITES, &index::REWRITES]),
            formulas("fuse-entries", "writes the lookup of one entry as `Gather`", &[&index::ENTRIES]),
            formulas("fuse-places", "drops the comparison of −0 with 0 if no element is −0", &[&place::REWRITES]),
            graph("gather-repeats", "writes elements that are repeated along several axes as `Gather`", resize::gather_repeats),
        ],
    ),
    phase(
        "recurrences",
        "Linear recurrences are read from the bodies of scans when their formulas are fused, and before other rewrites \
         move parts of a body out of the loop. Loops of known length become scans first.",
        &[
            nodes("count-iterations", "computes the number of iterations of a loop that ends at a limit of a counter", loops::iterations::run),
            nodes("run-all-iterations", "lets a loop run to its largest number of iterations if a runtime does not end it earlier", targets::endings::run).when(When::Always),
            nodes("scan-counters", "writes a loop of known length as a scan, over the values of its counters if it has any", loops::counters::run),
            nodes("store-states", "stores the states of all steps of a scan if only constants determine them", loops::known::run),
            nodes("split-recurrences", "writes a scan over several recurrences as one scan for each, if it would stay a loop otherwise", loops::layers::run_recurrences),
            nodes("split-carries", "carries the entries of a stacked state apart", loops::entries::run),
            nodes("fuse-linear-attention", "writes a state that outer products update as `LinearAttention`, or computes it in chunks of steps", loops::linear::attention::run).fusing(),
            nodes("chunk-recurrences", "computes a state that each step multiplies by a decay or by a constant matrix in chunks or in blocks of steps", loops::linear::chunks::run),
            nodes("chunk-peaks", "computes a state that keeps the largest or the smallest number so far in chunks of steps", loops::linear::chunks::run_peaks),
        ],
    ),
    phase(
        "steps",
        "Loop bodies are rewritten when their formulas are fused and their indices are known, and before \
         products absorb layout ops and biases.",
        &[
            nodes("batch-steps", "computes for all steps of a scan at once the values that depend only on the inputs of a step", loops::steps::run),
            nodes("split-layers", "writes a scan over several cells as one scan for each", loops::layers::run),
            nodes("fuse-computed-cells", "writes a scan over an LSTM or GRU cell as one operator, when what depends only on the inputs is computed", recurrent::run).fusing(),
            nodes("stack-buffers", "writes an array that a loop fills entry by entry as a stack", loops::buffers::run),
            nodes("settle-flags", "decides for all iterations of a loop at once which ones drop entries of an array", loops::settle::run),
            nodes("batch-results", "computes after a loop, for all steps at once, the results that no later step reads", loops::results::run),
            pass("unroll-loops", "unrolls short loops", Run::Configured(loops::unroll::run)),
        ],
    )
    .iterations(2),
    phase(
        "layout",
        "The order of axes is chosen when no composite hides a transpose. Embeddings and attention without \
         transposes are fused first, so that projections get the layout that their readers need. Scales and \
         biases are folded into weights both before and after, because a transpose may be in between.",
        &[
            graph("fuse-rotary-embedding", "finds `RotaryEmbedding`", rotary::run).fusing(),
            graph("fuse-plain-attention", "finds `Attention` whose operands need no transpose", |edit| attention::run(edit, Stage::Plain)).fusing(),
            graph("fold-products", "folds scales, biases and norms into the weights of products", fold_products::run),
            nodes("fold-layout-ops", "folds transposes and slices of weights", fold_layout_ops::run),
            graph("move-transposes", "chooses the order of axes for whole regions, with the fewest transposes", layout::run),
        ],
    )
    .iterations(2),
    phase(
        "products",
        "Layout ops sink through elementwise operators until they meet, products absorb the remaining ones, and \
         then attention around two products is fused. Each iteration begins with the layout ops that the previous one moved.",
        &[
            nodes("fuse-resize", "finds `Resize`", resize::run).fusing(),
            nodes("sink-layout-ops", "moves a layout op past elementwise operators until it meets another layout op", layout_ops::sink::run),
            graph("orient-products", "absorbs layout ops into a product", layout_ops::products::run),
            graph("fuse-attention", "finds `Attention`", |edit| attention::run(edit, Stage::Any)).fusing(),
        ],
    )
    .iterations(4),
    phase(
        "operators",
        "These rewrites choose the final operators. No later rewrite matches their results.",
        &[
            nodes("keep-moved-axes", "keeps the axes of a reduction if they are restored, now that their order is final", keep_axes::run),
            nodes("fuse-pads", "lets a convolution pad its operand with zeros", pad::run).fusing(),
            nodes("fuse-causal-convolutions", "writes a convolution over a state and new entries as `CausalConvWithState`", causal_conv::run).fusing(),
            nodes("split-products", "writes the product over a short axis as products of its entries", split_products::run),
            graph("lead-small-axes", "moves a small last axis to the front if operands broadcast along the other axes", small_axes::run),
            graph("keep-entries", "keeps the axis of vector entries that are stacked again", keep_entries::run),
            nodes("join-stacks", "writes a stack of arrays as one `Concat` and one `Reshape`", layout_ops::stacks::run),
            nodes("make-columns", "writes a matrix times a vector as a matrix product", layout_ops::columns::run),
            graph("make-rows", "computes with rows instead of vectors around products with a bias", layout_ops::rows::run),
            nodes("carry-layouts", "carries the state of a loop in the shape that its body computes with", loops::layouts::run),
            nodes("make-gemm", "writes a product with a bias as `Gemm`", gemm::run),
            formulas("fuse-batch-norms", "writes a scale and a shift of each channel as `BatchNormalization`", &[&batch_norm::REWRITES]).when(When::FusingNorms),
            graph("merge-choices", "merges the choices by one condition in a loop into one `If`", loops::choices::run),
            graph("dequantize", "writes whole numbers times scales as `DequantizeLinear` if the export asks for it", dequantize::run),
            nodes("shape-constants", "reshapes broadcast constants to the rank with which ONNX Runtime is fastest", shape_constants::run),
        ],
    ),
    phase(
        "share",
        "Loop invariants are hoisted when they cannot become smaller, and before sharing, because the same node \
         may already exist outside the loop. Weights of functions become inputs before constants are shared, \
         so that functions do not differ only because some of their weights are equal.",
        &[
            between("hoist-invariants", "moves loop invariants out of loops", hoist_invariants::run),
            model("lift-weights", "turns the weights of functions into inputs", lift_weights::run).when(When::Always),
            graph("share-constants", "stores equal constants once", share_constants::run),
        ],
    ),
    phase(
        "integers",
        "Integers are computed with all digits before the formulas of the targets, whose own integers are small.",
        &[nodes("keep-digits", "computes `int32` with all digits if a runtime does so in float32", targets::integers::run).when(When::Always)],
    )
    .raw(),
    phase(
        "targets",
        "What a runtime of the target lacks is rewritten when all operators are chosen. For the default target, only \
         the first rewrite matches.",
        &[
            nodes("read-arrays", "makes each iteration of a scan read every array that it scans", loops::scanned::run).when(When::Always),
            nodes("scan-to-loop", "writes a `Scan` as a `Loop` if a runtime has no `Scan`", targets::loops::scan_to_loop).when(When::Always),
            nodes("flip-scans", "reverses the arrays of a `Scan` if a runtime ignores its directions", targets::loops::flip_scan).when(When::Always),
            nodes("carry-captures", "carries the values that the body of a `Scan` reads from outside", targets::loops::carry_captures).when(When::Always),
            nodes("read-inputs", "makes the body of a `Scan` read all of its inputs", targets::loops::read_inputs).when(When::Always),
            nodes("hide-constants", "computes the constant arrays of a `Scan` if a runtime takes their elements for the whole array", targets::loops::hide_constants).when(When::Always),
            nodes("drop-added-axes", "drops axes of one element of the arrays that a `Scan` runs over if a runtime takes them for axes of the results", targets::loops::drop_added_axes).when(When::Always),
            nodes("separate-states", "separates the initial states of loops from values that other nodes read", targets::loops::separate_states).when(When::Always),
            nodes("copy-results", "copies the results that the body of a `Scan` also reads", targets::loops::copy_results).when(When::Always),
            nodes("adapt-forms", "writes operators in the form that a runtime takes", targets::forms::run).when(When::Always),
            nodes("adapt-operators", "writes operators that a runtime lacks as formulas", targets::operators::run).when(When::Always),
        ],
    )
    .raw()
    .iterations(2),
    phase(
        "device",
        "A node that a device lacks is written in a form that runs there. An `If` may become a `Where` when the branches \
         inside its own are gone.",
        &[
            nodes("adapt-to-device", "writes operators that a device lacks in a form that runs there", targets::device::run).when(When::Always),
            nodes("align-elements", "copies the elements of an array that the body of a `Scan` convolves on a GPU", targets::aligned::run).when(When::Always),
        ],
    )
    .iterations(3)
    .raw(),
    phase(
        "guard",
        "The last phase guarantees properties of the file, so nothing may change a graph after it. Functions are \
         compared when their bodies are final.",
        &[
            model("keep-zero-signs", "restores the sign of zero if a reader depends on it", keep_zero_signs::run).when(When::Always),
            model("store-once", "computes a large constant from another constant with the same elements", store_once::run),
            model("avoid-faults", "replaces patterns that ONNX Runtime computes wrongly", faults::run).when(When::Always),
            model("hide-conditions", "hides conditions of constants that crash ONNX Runtime", canonicalize::hide_conditions).when(When::Always),
            model("drop-unread-inputs", "drops unread inputs of functions if ONNX Runtime rejects their types", drop_unread_inputs::run).when(When::Always),
            model("share-functions", "stores equal functions once", share_functions::run),
            model(
                "constants-to-nodes",
                "turns the constants of functions into nodes, because functions have no initializers",
                Model::constants_to_nodes,
            )
            .when(When::Always),
        ],
    )
    .raw(),
];
