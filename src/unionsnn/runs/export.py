"""Export of a trained network as a torch.export program, checked before it is written."""

from __future__ import annotations

import io
import warnings
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import Dim

from unionsnn.base.errors import ExportError
from unionsnn.base.files import atomic_write
from unionsnn.config.schema import Config
from unionsnn.data.arrays import GraphArrays
from unionsnn.data.datasets import build_dataset
from unionsnn.data.edges import both_ways
from unionsnn.data.encodings.definitions import ENCODINGS, Encodings
from unionsnn.data.store import GraphStore
from unionsnn.nn.batch import ATTRIBUTES, GraphBatch
from unionsnn.runs.prediction import checkpoint_paths, without_digest
from unionsnn.runs.run_folder import recorded_checkpoints
from unionsnn.training.build import coefficient_spec, layer_spec
from unionsnn.training.checkpoints import network_of, read_checkpoint

TOLERANCE = 1e-5
"""Largest accepted difference from the network, relative to its outputs."""

# Nodes and undirected edges of the traced graph, then of the graphs for checking.
_TRACED, *_CHECKED = ((9, 14), (5, 6), (16, 40))

Inputs = dict[str, Tensor]


class OneGraph(nn.Module):
    """A network called with one graph, by positional arguments."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, edge_index: Tensor, attributes: Inputs) -> Tensor:
        """Return the output for the graph, [1, outputs], for nodes [num_nodes, outputs].

        For links [num_pairs, 1], of the pairs in `edge_label_index`.
        """
        if "distance" in attributes:
            # Batches cannot hold matrices of different sizes, but one graph can.
            attributes = {**attributes, "distance": attributes["distance"].flatten()}
        output: Tensor = self.model(GraphBatch.single(x, edge_index, **attributes))
        return output


def export_checkpoint(
    run: Path, out: Path, *, trust: bool | Collection[str] = False
) -> dict[str, Any]:
    """Export the network of a checkpoint to a program for graphs of any size.

    The program is called as ``program(x, edge_index, attributes)``: one graph, and a dict of the
    network's other inputs (features of edges, coefficients, encodings).

    Args:
        run: A checkpoint, or a run folder, whose first checkpoint is used.
        out: File to write.
        trust: As in `read_checkpoint`.

    Returns:
        The checkpoint, the inputs with their shapes, the differences from the network on other
        graphs than the traced one, and notes.

    Raises:
        RequestError: if there is no checkpoint, or its network is not trusted.
        DataError: if the checkpoint is damaged.
        ExportError: if the network cannot be traced, or the program differs from it.
        OSError: if the file cannot be written.
    """
    path = recorded_checkpoints(checkpoint_paths(run))[0][0]
    _, altered = recorded_checkpoints([path])
    checkpoint = read_checkpoint(path, trust)
    config, name = checkpoint.config, checkpoint.config.model.name
    trace, *others = (
        example(config, checkpoint.num_features, *size, checkpoint.num_edge_features)
        for size in (_TRACED, *_CHECKED)
    )
    model = network_of(checkpoint)
    program = traced(model, trace, name)
    errors = [difference(program, model, inputs) for inputs in others]
    if not max(errors) <= TOLERANCE:
        raise ExportError(
            f"{name} cannot be exported: the program differs by {max(errors):.1e} from the "
            f"network on graphs of other sizes; at most {TOLERANCE:.0e} is accepted."
        )
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    atomic_write(out, lambda file: file.write(buffer.getvalue()))
    return {
        "checkpoint": str(path),
        "model": name,
        "inputs": {key: _shape(key, value) for key, value in trace.items()},
        "errors": errors,
        "notes": [*without_digest([path], [checkpoint]), *altered],
    }


def traced(model: nn.Module, inputs: Inputs, name: str) -> torch.export.ExportedProgram:
    """Trace a network for graphs of any number of nodes and edges.

    Args:
        model: The network, in evaluation mode.
        inputs: Its inputs for one graph.
        name: Its name in messages.

    Raises:
        ExportError: if torch cannot trace it, with the reason in one line.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Not strict: layers run unchanged, so that PyG's code need not be compiled.
            return torch.export.export(
                OneGraph(model),
                arguments(inputs),
                dynamic_shapes=dynamic_shapes(inputs),
                strict=False,
            )
    except Exception as error:  # torch.export has no specific error.
        line = next((line for line in str(error).splitlines() if line.strip()), "")
        reason = f"{type(error).__name__}: {line.strip()[:160]}"
        if "Constraints violated" in line:
            reason = "torch.export cannot trace it for a free number of nodes"
        raise ExportError(f"{name} cannot be exported ({reason}).") from error


def arguments(inputs: Inputs) -> tuple[Tensor, Tensor, Inputs]:
    """Put inputs in the order of `OneGraph`."""
    rest = {key: value for key, value in inputs.items() if key in ATTRIBUTES}
    return inputs["x"], inputs["edge_index"], rest


def dynamic_shapes(inputs: Inputs) -> tuple[Any, Any, Any]:
    """Return which sizes of the inputs are dynamic."""
    nodes, edges, pairs = Dim("num_nodes"), Dim("num_edges"), Dim("num_pairs")
    free = {
        "edge_attr": {0: edges},
        "edge_coefficient": {0: edges},
        "layer_coefficient": {0: edges},
        "distance": {0: nodes, 1: nodes},
        "edge_label_index": {1: pairs},
    }
    rest = {key: free.get(key, {0: nodes}) for key in arguments(inputs)[2]}
    return {0: nodes}, {1: edges}, rest


def difference(program: torch.export.ExportedProgram, model: nn.Module, inputs: Inputs) -> float:
    """Return the largest difference of program and network, relative to the outputs."""
    with torch.no_grad():
        wanted = OneGraph(model)(*arguments(inputs))
        found = program.module()(*arguments(inputs))
    scale = max(1.0, float(wanted.abs().max()))
    return float((found - wanted).abs().max()) / scale


def example(
    config: Config, num_features: Any, num_nodes: int, num_edges: int, num_edge_features: Any = None
) -> Inputs:
    """Make a random graph with all inputs of a network, the same for the same sizes."""
    generator = np.random.default_rng(np.random.SeedSequence([num_nodes, num_edges]))
    pairs = np.argwhere(np.triu(np.ones((num_nodes, num_nodes)), 1))
    chosen = pairs[generator.permutation(len(pairs))[:num_edges]].T
    edges = both_ways(chosen)
    edges = edges[:, np.lexsort(edges[::-1])]
    arrays = GraphArrays(
        edge_index=edges,
        node_slices=np.array([0, num_nodes]),
        edge_slices=np.array([0, edges.shape[1]]),
        y=np.zeros(1, dtype=np.int64),
    )
    if config.data.task == "link_prediction":
        arrays = arrays.with_pairs([generator.integers(0, num_nodes, (2, num_edges))])
    specs = {
        "edge_coefficient": coefficient_spec(config),
        "layer_coefficient": layer_spec(config),
    }
    encodings = Encodings(**(config.model.encodings.to_dict() if config.model.encodings else {}))
    dataset = build_dataset(
        arrays,
        "constant",
        {key: spec.compute(edges, num_nodes, threads=1) for key, spec in specs.items() if spec},
        {
            key: ENCODINGS[key](edges, arrays.node_slices, size, None)
            for key, size in encodings.wanted().items()
        },
    )
    batch = GraphStore(dataset).batch(torch.tensor([0]))
    inputs = {key: batch[key] for key in ("edge_index", *ATTRIBUTES) if key in batch}
    if "distance" in inputs:
        inputs["distance"] = inputs["distance"].view(num_nodes, num_nodes)

    def rows(width: int | Sequence[int], count: int) -> Tensor:
        if isinstance(width, int):
            return torch.from_numpy(generator.random((count, width), dtype=np.float32))
        columns = [generator.integers(0, each, count) for each in width]
        return torch.from_numpy(np.stack(columns, axis=1))

    inputs = {"x": rows(num_features, num_nodes), **inputs}
    if num_edge_features is not None:
        inputs["edge_attr"] = rows(num_edge_features, edges.shape[1])
    return inputs


def _shape(key: str, value: Tensor) -> str:
    rows = "num_edges" if key.startswith("edge_") or key == "layer_coefficient" else "num_nodes"
    whole = {
        "edge_index": "2, num_edges",
        "edge_label_index": "2, num_pairs",
        "distance": "num_nodes, num_nodes",
    }
    sizes = whole.get(key) or ", ".join([rows, *map(str, value.shape[1:])])
    return f"{str(value.dtype).removeprefix('torch.')} [{sizes}]"
