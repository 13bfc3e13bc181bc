"""Training of a network to tell one pair of graphs apart, and the test whether it does.

Source: Wang and Zhang, "An Empirical Study of Realized GNN Expressiveness" (ICML 2024), section 5,
the Reliable Paired Comparison: Hotelling's T² over relabelled copies of both graphs.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor, nn

from unionsnn.base.errors import NonFiniteLossError, RequestError
from unionsnn.config.pairs import PairConfig, PairProtocolConfig
from unionsnn.data.encodings.definitions import Encodings
from unionsnn.data.store import GraphStore
from unionsnn.expressivity.bench import Bench
from unionsnn.expressivity.edge_colorings import EdgeColoring
from unionsnn.expressivity.graph_sets import Family, Graph
from unionsnn.expressivity.relabelled_copies import PairCopies
from unionsnn.models.fitting import fit_to_training
from unionsnn.nn.batch import GraphBatch
from unionsnn.training.build import build_model, coefficient_spec, layer_spec
from unionsnn.training.devices import forked_generators, name_of_device
from unionsnn.training.memory import BatchMemory, require_batches

RESOLUTION = float(np.finfo(np.float32).eps)
"""Differences below this share of an embedding's length are rounding to a trained network."""


class PairNetwork:
    """A network for a pair of graphs, and the relabelled copies that it is trained and tested on.

    Pair i draws from SeedSequence([seed, i]), whatever ran before it and in which process; torch's
    global generators are seeded, and left as training goes on from them.

    Args:
        config: A configuration from `unionsnn.expressivity.trained_pairs.trained_config`.
        pair: G and H.
        index: i.
        device: Where the network is trained.

    Attributes:
        model: The network.
        copies: The copies.
    """

    def __init__(
        self, config: PairConfig, pair: tuple[Graph, Graph], index: int, device: torch.device
    ) -> None:
        self.pair, self.index = pair, index
        protocol = config.protocol
        copy_seed, model_seed = np.random.SeedSequence([config.seed, index]).generate_state(2)
        encodings = config.model.encodings
        self.copies = PairCopies(
            pair,
            protocol.copies,
            generator=np.random.default_rng(copy_seed),
            spec=coefficient_spec(config),
            layer_spec=layer_spec(config),
            encodings=Encodings(**(encodings.to_dict() if encodings else {})).wanted(),
            control=config.coefficient.control,
        )
        self.seed = int(model_seed)
        torch.manual_seed(self.seed)
        self.model = build_model(config, self.copies.dataset.num_features, protocol.channels)
        fit_to_training(
            self.model,
            self.copies.test_rows,
            lambda: torch.tensor([num_nodes for _, num_nodes in pair]),
            lambda: torch.from_numpy(
                np.bincount(np.concatenate([np.bincount(e[1], minlength=n) for e, n in pair]))
            ),
        )
        self.model.to(device)

    def record(
        self, outcome: dict[str, Any], epochs: int, loss: float, seconds: float
    ) -> dict[str, Any]:
        """Return plain types: an outcome of `compare_reliably`, and how it came about."""
        bench = Bench([Family("", "", self.pair)], threads=1)
        return {
            "index": self.index,
            **outcome,
            "told_by_1wl": bool(bench.run(EdgeColoring.parse("1wl")).told[0]),
            "epochs": epochs,
            "loss": loss,
            "device": name_of_device(device_of(self.model)),
            "seconds": round(seconds, 3),
        }


def compare_pair(
    config: PairConfig, pair: tuple[Graph, Graph], index: int, device: torch.device
) -> dict[str, Any]:
    """Train a network on relabelled copies of two graphs, then test whether it tells them apart.

    Args:
        config: A configuration from `unionsnn.expressivity.trained_pairs.trained_config`.
        pair: G and H.
        index: The pair's number, by which it is seeded.
        device: Where the network is trained.

    Returns:
        Plain types: ``told`` if T² is over the threshold and ``reliable``, which is whether T² of
        copies of one and the same graph is not; both statistics, and what they were made of;
        ``told_by_1wl``, whether plain colour refinement tells the pair apart; the ``device``.

    Raises:
        NonFiniteLossError: if training diverges.
        FloatingPointError: if an embedding is not finite.
    """
    begin = time.perf_counter()
    with forked_generators(device):
        network = PairNetwork(config, pair, index, device)
        epochs, loss = train_contrastive(network, config)
        try:
            outcome = compare_reliably(network.model, network.copies, config)
        except FloatingPointError as error:
            raise of_pair(index, error) from None
    return network.record(outcome, epochs, loss, time.perf_counter() - begin)


def of_pair(index: int, error: FloatingPointError) -> FloatingPointError:
    """Return the error of an embedding, with the pair named."""
    return FloatingPointError(f"Pair {index}: {error}")


def diverged(index: int, loss: float, epoch: int) -> NonFiniteLossError:
    """Return the error of a pair whose loss is not finite."""
    return NonFiniteLossError(
        f"The loss of pair {index} is {loss} in epoch {epoch}; type a smaller optimizer.lr."
    )


def train_contrastive(network: PairNetwork, config: PairConfig) -> tuple[int, float]:
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
    protocol, section = config.protocol, config.optimizer
    model, copies = network.model, network.copies
    criterion = nn.CosineEmbeddingLoss(margin=protocol.margin)
    optimizer = torch.optim.Adam(
        model.parameters(), lr=section.lr, weight_decay=section.weight_decay
    )
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    store = GraphStore(copies.dataset).to(device_of(model))
    first, second = copies.test
    numbers = torch.stack([first, second], dim=1).flatten()
    # Whole pairs in each batch.
    parts = torch.split(numbers, config.data.batch_size // 2 * 2)
    model.train()
    require_memory(model, store, numbers, config)
    # Copies are in double precision, networks are trained in single precision.
    dtype = next(model.parameters()).dtype
    batches = [
        store.batch(part).apply(
            lambda value: value.to(dtype) if value.is_floating_point() else value
        )
        for part in parts
    ]
    epoch, mean = 0, float("nan")
    for epoch in range(1, config.trainer.max_epochs + 1):
        total = 0.0
        for batch in batches:
            output = model(GraphBatch.of(batch))
            apart = -output.new_ones(len(output) // 2)
            loss = criterion(output[0::2], output[1::2], apart)
            if not torch.isfinite(loss):
                raise diverged(network.index, loss.item(), epoch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(apart)
        mean = total / copies.copies
        if mean < protocol.stop_loss:
            break
        plateau.step(mean)
    return epoch, mean


def compare_reliably(model: nn.Module, copies: PairCopies, config: PairConfig) -> dict[str, Any]:
    """Compare the two graphs, and one of them with itself, in double precision."""
    model.double().eval()
    store, size = GraphStore(copies.dataset).to(device_of(model)), config.data.batch_size
    require_memory(model, store, torch.cat(copies.test), config)
    test, check = (
        paired_t2(embeddings(model, store, first, size), embeddings(model, store, second, size))
        for first, second in (copies.test, copies.check)
    )
    return verdict(test, check, config.protocol)


def verdict(test: PairedTest, check: PairedTest, protocol: PairProtocolConfig) -> dict[str, Any]:
    """Return what two comparisons say: that of the graphs, and that of one of them with itself."""
    threshold = t2_threshold(protocol.channels, protocol.copies, protocol.alpha)
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


def require_memory(
    model: nn.Module, store: GraphStore, numbers: Tensor, config: PairConfig
) -> BatchMemory:
    """Return the memory of a batch of these graphs; refuse one that does not fit."""
    size = min(config.data.batch_size, len(numbers))
    advice = "type a smaller data.batch_size, or choose a smaller model or smaller graphs"
    return require_batches(model, [store.extent(numbers, size)], advice, device_of(model))


def device_of(model: nn.Module) -> torch.device:
    """Return where the weights of a network are."""
    return next(model.parameters()).device


@torch.no_grad()
def embeddings(
    model: nn.Module, store: GraphStore, numbers: Tensor, batch_size: int
) -> NDArray[np.float64]:
    """Return the embeddings of copies of one graph, in batches without others, [q, d]."""
    parts = [model(GraphBatch.of(store.batch(part))) for part in torch.split(numbers, batch_size)]
    return torch.cat(parts).cpu().numpy()


@dataclass(frozen=True)
class PairedTest:
    """Comparison of the embeddings of two graphs' copies.

    Attributes:
        statistic: T².
        rank: Directions in which the differences vary by more than the resolution.
        distance: Length of the mean difference, as a share of the embeddings' length.
        spread: Largest standard deviation of the differences in any direction, as such a share;
            rounding only for a network that does not depend on the order of nodes.
    """

    statistic: float
    rank: int
    distance: float
    spread: float


def paired_t2(
    first: NDArray[Any], second: NDArray[Any], resolution: float = RESOLUTION
) -> PairedTest:
    r"""Return Hotelling's T² of paired differences known only up to a resolution.

    .. math::
        T^2 = q\, \bar d^\top (S + \tau^2 I)^{-1} \bar d, \qquad \tau = \rho s

    q is the number of copies, d the difference of a copy's embeddings, S the covariance of d, s the
    root mean square length of an embedding and rho the resolution. Copies of a graph get the same
    embedding from an invariant network, so that S is made of rounding and the plain T² compares
    rounding with rounding; with tau it is a mean difference measured by the resolution. Adding to S
    can only lower T², whatever its rank, so the test never rejects more often than it should.

    Args:
        first: Embeddings of the copies of one graph.
        second: Embeddings of the other's copies, in the order of their partners.
        resolution: rho.

    Shapes:
        first, second [q, d].

    Raises:
        RequestError: The shapes differ, or there are fewer than two copies.
        FloatingPointError: An embedding is not finite.
    """
    if first.shape != second.shape or first.ndim != 2 or len(first) < 2:
        raise RequestError(
            f"first and second have the shapes {first.shape} and {second.shape}; both must be "
            "[q, d] with at least 2 rows.",
            code="expressivity.shape",
        )
    both = np.stack([first, second]).astype(np.float64)
    if not np.isfinite(both).all():
        raise FloatingPointError("An embedding is NaN or infinite.")
    length = float(np.sqrt((both**2).sum(axis=-1).mean()))
    if length == 0:
        return PairedTest(0.0, 0, 0.0, 0.0)
    differences = (both[0] - both[1]) / length
    mean = differences.mean(axis=0)
    variances, directions = np.linalg.eigh(np.atleast_2d(np.cov(differences, rowvar=False)))
    # Rounding can make a zero variance negative.
    variances = variances.clip(min=0)
    along = directions.T @ mean
    return PairedTest(
        statistic=float(len(differences) * (along**2 / (variances + resolution**2)).sum()),
        rank=int((variances > resolution**2).sum()),
        distance=float(np.linalg.norm(mean)),
        spread=float(np.sqrt(variances[-1])),
    )


def t2_threshold(channels: int, copies: int, alpha: float) -> float:
    r"""Return the value that T² exceeds with probability alpha if the mean difference is 0.

    .. math::
        \frac{d (q - 1)}{q - d} F_{d,\, q - d}(1 - \alpha)

    Args:
        channels: d, the width of an embedding.
        copies: q.
        alpha: Size of the test.

    Raises:
        RequestError: There are not more copies than channels, or alpha is not a probability.
    """
    if copies <= channels or channels < 1:
        raise RequestError(
            f"copies is {copies} and channels {channels}; there must be more copies than channels.",
            code="expressivity.copies",
        )
    if not 0 < alpha < 1:
        raise RequestError(
            f"alpha is {alpha}; it must be between 0 and 1.", code="expressivity.alpha"
        )
    quantile = stats.f.isf(alpha, channels, copies - channels)
    return float(channels * (copies - 1) / (copies - channels) * quantile)


def chance_bound(tests: int, alpha: float, level: float = 0.99) -> int:
    """Return the rejections that chance explains: a quantile of Binomial(tests, alpha)."""
    return int(stats.binom.ppf(level, tests, alpha)) if tests else 0
