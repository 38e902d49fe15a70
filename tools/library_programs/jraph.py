"""Graph networks of jraph."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import jraph
import numpy as np

from .program import Program, floats

GRAPH = jraph.GraphsTuple(
    nodes=floats(5, 4),
    edges=floats(6, 3),
    senders=np.array([0, 1, 2, 3, 4, 0], np.int32),
    receivers=np.array([1, 2, 0, 4, 3, 2], np.int32),
    n_node=np.array([3, 2], np.int32),
    n_edge=np.array([3, 3], np.int32),
    globals=floats(2, 2),
)
WEIGHTS = {size: floats(size, 4, seed=size) * 0.3 for size in (4, 8, 10, 13, 15)}


def dense(*parts: Any) -> Any:
    x = jnp.concatenate([one for one in parts if one is not None], axis=-1)
    return jax.nn.relu(x @ floats(x.shape[-1], 4, seed=x.shape[-1]))


def network(make: Any) -> Any:
    def build() -> Any:
        apply = make()

        def fn(graph: Any) -> Any:
            out = apply(graph)
            return out.nodes, out.edges, out.globals

        return fn, (GRAPH,)

    return build


def full() -> Any:
    return jraph.GraphNetwork(
        update_edge_fn=lambda edge, sent, received, shared: dense(edge, sent, received, shared),
        update_node_fn=lambda node, sent, received, shared: dense(node, sent, received, shared),
        update_global_fn=lambda nodes, edges, shared: dense(nodes, edges, shared),
    )


def attention() -> Any:
    return jraph.GAT(
        attention_query_fn=lambda nodes: nodes @ WEIGHTS[4],
        attention_logit_fn=lambda sent, received, edges: (
            jnp.concatenate([sent, received], axis=-1) @ WEIGHTS[8]
        )[:, :1],
    )


def interaction() -> Any:
    return jraph.InteractionNetwork(
        update_edge_fn=lambda edge, sent, received: dense(edge, sent, received),
        update_node_fn=lambda node, received: dense(node, received),
    )


PROGRAMS = [
    Program("`GraphNetwork`", network(full)),
    Program(
        "`GraphConvolution`", network(lambda: jraph.GraphConvolution(lambda x: x @ WEIGHTS[4]))
    ),
    Program("`GAT`", network(attention)),
    Program("`InteractionNetwork`", network(interaction)),
]
