"""A network trained to tell one pair of graphs apart, and the test whether it does."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch_geometric.data import Batch

from unionsnn.base.errors import NonFiniteLossError
from unionsnn.data.batching import GraphStore
from unionsnn.data.encodings.definitions import Encodings
from unionsnn.expressivity.bench import Bench, Family
from unionsnn.expressivity.choices import Choice
from unionsnn.expressivity.copies import Graph, PairCopies
from unionsnn.expressivity.hotelling import paired_t2, t2_threshold
from unionsnn.models.network import fit_to_training
from unionsnn.training.build import build_model, coefficient_spec, layer_spec
from unionsnn.training.memory import require_batches
from unionsnn.training.tasks import output_of


def compare_pair(
    config: Mapping[str, Any], pair: tuple[Graph, Graph], index: int
) -> dict[str, Any]:
    """Train a network on relabelled copies of two graphs, then test whether it tells them apart.

    Pair i draws from SeedSequence([seed, i]), whatever ran before it and in which process.

    Args:
        config: As `unionsnn.expressivity.trained.trained_config` returns it.
        pair: G and H.
        index: i.

    Returns:
        Plain types: ``told`` if T² is over the threshold and ``reliable``, which is whether T² of
        copies of one and the same graph is not; both statistics, and what they were made of;
        ``told_by_1wl``, whether plain colour refinement tells the pair apart.

    Raises:
        NonFiniteLossError: if training diverges.
        FloatingPointError: if an embedding is not finite.
    """
    begin = time.perf_counter()
    protocol = config["protocol"]
    copy_seed, model_seed = np.random.SeedSequence([config["seed"], index]).generate_state(2)
    copies = PairCopies(
        pair,
        protocol["copies"],
        generator=np.random.default_rng(copy_seed),
        spec=coefficient_spec(config),
        layer_spec=layer_spec(config),
        encodings=Encodings(**config["model"].get("encodings") or {}).wanted(),
        control=config["coefficient"]["control"],
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(model_seed))
        model = build_model(config, copies.dataset.num_features, protocol["channels"])
        fit_to_training(
            model, copies.test_rows, lambda: torch.tensor([num_nodes for _, num_nodes in pair])
        )
        epochs, loss = train_contrastive(model, copies, config)
        outcome = compare_reliably(model, copies, config)
    bench = Bench([Family("", "", pair)], threads=1)
    return {
        "index": index,
        **outcome,
        "told_by_1wl": bool(bench.run(Choice.parse("1wl")).told[0]),
        "epochs": epochs,
        "loss": loss,
        "seconds": round(time.perf_counter() - begin, 3),
    }


def train_contrastive(
    model: nn.Module, copies: PairCopies, config: Mapping[str, Any]
) -> tuple[int, float]:
    r"""Push the embeddings of the two graphs' copies apart.

    .. math::
        L = \max(0, \cos(f(G_i), f(H_i)) - \mathrm{margin})

    A Siamese network: the same one for both. Adam, with the learning rate falling on a plateau of
    the loss; training ends early when an epoch's mean loss is below ``protocol.stop_loss``.

    Returns:
        Epochs trained, and the last one's mean loss.

    Raises:
        NonFiniteLossError: if training diverges.
    """
    protocol, section = config["protocol"], config["optimizer"]
    criterion = nn.CosineEmbeddingLoss(margin=protocol["margin"])
    optimizer = torch.optim.Adam(
        model.parameters(), lr=section["lr"], weight_decay=section["weight_decay"]
    )
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    store = GraphStore(copies.dataset)
    first, second = copies.test
    numbers = torch.stack([first, second], dim=1).flatten()
    # Whole pairs in each batch.
    parts = torch.split(numbers, config["data"]["batch_size"] // 2 * 2)
    model.train()
    _require_memory(model, store, numbers, config)
    batches = [single(store.batch(part)) for part in parts]
    epoch, mean = 0, float("nan")
    for epoch in range(1, config["trainer"]["max_epochs"] + 1):
        total = 0.0
        for batch in batches:
            output = output_of(model, batch)
            apart = -torch.ones(len(output) // 2)
            loss = criterion(output[0::2], output[1::2], apart)
            if not torch.isfinite(loss):
                raise NonFiniteLossError(
                    f"The loss is {loss.item()} in epoch {epoch}; type a smaller optimizer.lr."
                )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(apart)
        mean = total / copies.copies
        if mean < protocol["stop_loss"]:
            break
        plateau.step(mean)
    return epoch, mean


def compare_reliably(
    model: nn.Module, copies: PairCopies, config: Mapping[str, Any]
) -> dict[str, Any]:
    """Compare the two graphs, and one of them with itself, in double precision."""
    protocol = config["protocol"]
    threshold = t2_threshold(protocol["channels"], protocol["copies"], protocol["alpha"])
    model.double().eval()
    store, size = GraphStore(copies.dataset), config["data"]["batch_size"]
    _require_memory(model, store, torch.cat(copies.test), config)
    test, check = (
        paired_t2(embeddings(model, store, first, size), embeddings(model, store, second, size))
        for first, second in (copies.test, copies.check)
    )
    reliable = check.statistic <= threshold
    return {
        "told": test.statistic > threshold and reliable,
        "reliable": reliable,
        "statistic": test.statistic,
        "reliability": check.statistic,
        "rank": test.rank,
        "distance": test.distance,
        "spread": max(test.spread, check.spread),
    }


def _require_memory(
    model: nn.Module, store: GraphStore, numbers: Tensor, config: Mapping[str, Any]
) -> None:
    """Refuse a batch of these graphs that does not fit."""
    size = min(config["data"]["batch_size"], len(numbers))
    advice = "type a smaller data.batch_size, or choose a smaller model or smaller graphs"
    require_batches(model, [store.extent(numbers, size)], advice)


@torch.no_grad()
def embeddings(
    model: nn.Module, store: GraphStore, numbers: Tensor, batch_size: int
) -> NDArray[np.float64]:
    """Embeddings of copies of one graph, none of another's among its batches, [q, d]."""
    parts = [output_of(model, store.batch(part)) for part in torch.split(numbers, batch_size)]
    return torch.cat(parts).numpy()


def single(batch: Batch) -> Batch:
    """Round a batch's numbers to single precision, in which networks are trained."""

    def rounded(value: Tensor) -> Tensor:
        return value.float() if value.is_floating_point() else value

    return batch.apply(rounded)
