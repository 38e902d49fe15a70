//! The phases in which a model is rewritten.

use onnx::{Edit, Model};

use crate::fuse::attention::Stage;
use crate::fuse::{
    activation, attention, batch_norm, choice, division, index, norm, pick, place, pool, reduction,
    resize, rotary, softmax, thresholded_relu, triangle, uniform, weighted,
};
use crate::rewrite::Rewrite;
use crate::{
    canonicalize, drop_carries, drop_dead, faults, fold_layout_ops, fold_products, gemm,
    hoist_invariants, inline_composites, keep_axes, keep_entries, keep_zero_signs, layout,
    layout_ops, lift_weights, loops, merge_affine, recurrent, share_constants, share_functions,
    simplify_sizes, split_means, split_products, store_once, trim_constants,
};

/// Rewrites that belong together.
pub struct Phase {
    pub name: &'static str,
    /// Why it stands where it stands.
    pub because: &'static str,
    pub rewrites: &'static [Pass],
    /// Whether the graph is made canonical after each change.
    pub(crate) is_canonical: bool,
    /// How often the rewrites are tried, as long as they change something.
    pub(crate) max_rounds: usize,
}

/// A rewrite.
pub struct Pass {
    pub name: &'static str,
    /// What it does.
    pub does: &'static str,
    pub(crate) run: Run,
    pub(crate) when: When,
}

pub(crate) enum Run {
    /// Of each graph by itself, bodies and functions included.
    Graph(fn(&mut Edit<'_>)),
    /// Of each graph by itself, with the most nodes that the rounds of a loop may become.
    Unroll(fn(&mut Edit<'_>, usize)),
    /// By formulas, stage by stage.
    Formulas(&'static [&'static [Rewrite]]),
    /// Of the model as a whole.
    Model(fn(&mut Model)),
    /// From one graph to another. Returns whether any graph changed.
    Between(fn(&mut Model) -> bool),
}

/// When a rewrite is wanted.
pub(crate) enum When {
    Optimizing,
    FusingNorms,
    /// There is no right file without it.
    Always,
}

const fn graph(name: &'static str, does: &'static str, run: fn(&mut Edit<'_>)) -> Pass {
    Pass { name, does, run: Run::Graph(run), when: When::Optimizing }
}

const fn formulas(
    name: &'static str,
    does: &'static str,
    stages: &'static [&'static [Rewrite]],
) -> Pass {
    Pass { name, does, run: Run::Formulas(stages), when: When::Optimizing }
}

const fn model(name: &'static str, does: &'static str, run: fn(&mut Model)) -> Pass {
    Pass { name, does, run: Run::Model(run), when: When::Optimizing }
}

const fn between(name: &'static str, does: &'static str, run: fn(&mut Model) -> bool) -> Pass {
    Pass { name, does, run: Run::Between(run), when: When::Optimizing }
}

impl Pass {
    /// Returns the formulas that it looks for; a pass without a pattern has none.
    pub fn formulas(&self) -> impl Iterator<Item = &'static Rewrite> {
        let stages = match self.run {
            Run::Formulas(stages) => stages,
            _ => &[],
        };
        stages.iter().copied().flatten()
    }

    const fn when(self, when: When) -> Pass {
        Pass { when, ..self }
    }
}

const fn phase(name: &'static str, because: &'static str, rewrites: &'static [Pass]) -> Phase {
    Phase { name, because, rewrites, is_canonical: true, max_rounds: 1 }
}

impl Phase {
    const fn raw(self) -> Phase {
        Phase { is_canonical: false, ..self }
    }

    const fn rounds(self, max_rounds: usize) -> Phase {
        Phase { max_rounds, ..self }
    }
}

/// The phases in the order they run.
pub const PHASES: &[Phase] = &[
    phase(
        "prune",
        "Dead code goes first, so that no node answers for its lines. The lines that read each weight are \
         noted while each line has nodes of its own. Then the graph becomes canonical, and stays so: every \
         later phase looks for one form of each thing.",
        &[
            graph("drop-dead", "drops nodes that no output needs", drop_dead::run),
            model("drop-carries", "drops values that a loop carries without need", drop_carries::run),
            model("note-captures", "notes which lines read each weight", Model::note_captures),
            graph(
                "canonicalize",
                "applies the rules of canonicalization everywhere",
                canonicalize::everything,
            ),
        ],
    )
    .raw(),
    phase(
        "loops",
        "Recurrent cells and pools are recognized by the body of a loop or by a window as plugins made them, \
         before formulas change what is inside.",
        &[
            formulas("fuse-choices", "writes `jnp.select` as a chain of `Where`", choice::STAGES),
            graph(
                "fuse-recurrent",
                "writes a scan over an LSTM or GRU cell as one operator",
                recurrent::run,
            ),
            formulas("fuse-pools", "writes the mean of each window as `AveragePool`", &[pool::REWRITES]),
        ],
    ),
    phase(
        "formulas",
        "Formulas are found while each line has the nodes that its plugin made, and functions of many nodes are \
         composites. Norms come before reductions, whose squares and roots they contain. Chains of constants \
         are merged last, when no formula needs their parts.",
        &[
            graph("keep-axes", "lets a reduction keep the axes that are put back", keep_axes::run),
            formulas("fuse-activations", "finds activations such as `Gelu`", &[activation::REWRITES, thresholded_relu::REWRITES]),
            formulas("fuse-uniform", "writes random bits as numbers from 0 to 1", &[uniform::REWRITES]),
            formulas("fuse-softmax", "finds `Softmax` and `LogSoftmax`", &[softmax::REWRITES]),
            formulas("fuse-means", "writes a sum divided by its count as a mean", &[norm::MEANS]),
            formulas(
                "fuse-norms",
                "finds layer norms, group norms and RMS norms",
                norm::STAGES,
            )
            .when(When::FusingNorms),
            graph(
                "split-means",
                "writes a mean over an axis that may be empty as a sum and a division",
                split_means::run,
            ),
            formulas(
                "fuse-reductions",
                "finds reductions such as `ReduceL2` and `ReduceSumSquare`",
                reduction::STAGES,
            ),
            formulas("fuse-weighted-sums", "writes a weighted sum as a product", &[weighted::REWRITES]),
            graph(
                "merge-affine",
                "writes a chain of sums and products with constants as one of each",
                merge_affine::run,
            ),
        ],
    ),
    phase(
        "indices",
        "When all formulas are found, composites become nodes. Then indices have their final types, and \
         bounds on them are known.",
        &[
            graph(
                "inline-composites",
                "replaces each composite by its nodes",
                inline_composites::run,
            )
            .when(When::Always),
            formulas("fuse-indices", "writes lookups by index as `Gather`, without bounds that always hold", &[division::REWRITES, index::REWRITES]),
            formulas("fuse-entries", "writes the lookup of one entry as `Gather`", &[index::ENTRIES]),
            formulas("fuse-places", "writes comparisons with a range as `OneHot`", &[place::REWRITES]),
            graph(
                "gather-repeats",
                "writes elements that are repeated along several axes as `Gather`",
                resize::gather_repeats,
            ),
        ],
    ),
    phase(
        "steps",
        "What a loop computes in every round is looked at when its formulas are found and its indices are known, \
         and before products take up layout ops and biases.",
        &[
            graph(
                "scan-counters",
                "lets a loop run over the numbers that it counts",
                loops::counters::run,
            ),
            graph(
                "batch-steps",
                "computes at once what all steps of a scan compute of their inputs alone",
                loops::steps::run,
            ),
            Pass {
                name: "unroll-loops",
                does: "writes a short loop as its rounds",
                run: Run::Unroll(loops::unroll::run),
                when: When::Optimizing,
            },
        ],
    )
    .rounds(2),
    phase(
        "layout",
        "The order of axes is chosen when no composite hides a transpose. Embeddings and attention that need no \
         transposes are found before, so that projections are oriented for what reads them. Scales and \
         biases go into weights before and after, because a transpose may be between.",
        &[
            graph("fuse-rotary-embeddings", "finds `RotaryEmbedding`", rotary::run),
            graph(
                "fuse-plain-attention",
                "finds `Attention` whose operands need no transpose",
                |edit| attention::run(edit, Stage::Plain),
            ),
            graph(
                "fold-products",
                "folds scales, biases and norms into the weights of products",
                fold_products::run,
            ),
            graph("fold-layout-ops", "folds transposes and slices of weights", fold_layout_ops::run),
            graph(
                "move-transposes",
                "chooses the order of axes for whole regions, with the fewest transposes",
                layout::run,
            ),
        ],
    )
    .rounds(2),
    phase(
        "products",
        "Layout ops sink through elementwise operators until they meet, products take up the ones that are left, \
         and attention is what remains around two products. Each round brings together what the round before moved.",
        &[
            graph("fuse-resize", "finds `Resize`", resize::run),
            graph(
                "sink-layout-ops",
                "moves a layout op behind elementwise operators, to where it meets another",
                layout_ops::sink::run,
            ),
            graph(
                "orient-products",
                "writes a product so that the layout ops around it vanish",
                layout_ops::products::run,
            ),
            formulas("fuse-picks", "writes the slice of one entry as `Gather`", &[pick::REWRITES]),
            graph("fuse-attention", "finds `Attention`", |edit| attention::run(edit, Stage::Any)),
        ],
    )
    .rounds(4),
    phase(
        "operators",
        "The rest is a matter of spelling: no later rewrite looks into these forms.",
        &[
            graph(
                "lead-small-axes",
                "puts a small last axis first where operands broadcast around it",
                layout::small_axes::run,
            ),
            graph(
                "split-products",
                "writes the product over a short axis as products of its entries",
                split_products::run,
            ),
            graph(
                "keep-entries",
                "lets entries of a vector that are stacked again keep their axis",
                keep_entries::run,
            ),
            graph("fuse-blocks", "finds `DepthToSpace` and `SpaceToDepth`", layout_ops::blocks::run),
            graph(
                "join-stacks",
                "writes a stack of arrays as one `Concat` and one `Reshape`",
                layout_ops::stacks::run,
            ),
            graph("drop-batches", "drops batch axes of size one around a product", layout_ops::batches::run),
            graph("make-columns", "writes a matrix times a vector as a matrix product", layout_ops::columns::run),
            formulas("fuse-triangles", "writes a triangular mask as `Trilu`", &[triangle::REWRITES]),
            graph("make-gemm", "writes a product with a bias as `Gemm`", gemm::run),
            formulas(
                "fuse-batch-norms",
                "writes a scale and a shift of each channel as `BatchNormalization`",
                &[batch_norm::REWRITES],
            )
            .when(When::FusingNorms),
            graph("simplify-sizes", "reads sizes at once with `Shape` or `Size`", simplify_sizes::run),
            graph(
                "merge-choices",
                "writes the choices that a flag makes in a loop as one `If`",
                loops::choices::run,
            ),
            graph(
                "trim-constants",
                "drops leading unit axes of constants that broadcast",
                trim_constants::run,
            ),
        ],
    ),
    phase(
        "share",
        "Loop invariants are hoisted when they are as small as they get, and before sharing, because the same \
         node may already be before the loop. Weights of functions become inputs before constants are shared: \
         functions must not differ by which of their weights happen to be equal.",
        &[
            between(
                "hoist-invariants",
                "moves loop invariants out of loops",
                hoist_invariants::run,
            ),
            model("lift-weights", "makes the weights of functions their inputs", lift_weights::run)
                .when(When::Always),
            graph("share-constants", "stores equal constants once", share_constants::run),
        ],
    ),
    phase(
        "guard",
        "The last phase guarantees properties of the file, so nothing may change a graph after it. Functions are \
         compared when their bodies are final.",
        &[
            model(
                "keep-zero-signs",
                "chooses between 0 and -0 as JAX does, where a reader can tell",
                keep_zero_signs::run,
            )
            .when(When::Always),
            model(
                "store-once",
                "computes a large constant from another one that has its elements",
                store_once::run,
            ),
            model(
                "avoid-faults",
                "replaces forms that a runtime computes wrongly",
                faults::run,
            )
            .when(When::Always),
            model("share-functions", "stores equal functions once", share_functions::run),
            model(
                "constants-to-nodes",
                "makes the constants of functions nodes, because functions have no initializers",
                Model::constants_to_nodes,
            )
            .when(When::Always),
        ],
    )
    .raw(),
];
