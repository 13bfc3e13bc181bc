"""Readouts and encoders."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from unionsnn.nn.encoders import LinearEncoder
from unionsnn.nn.readout import readout


@pytest.mark.parametrize(
    ("kind", "pool"),
    [
        ("sum", lambda rows: rows.sum(dim=0)),
        ("mean", lambda rows: rows.mean(dim=0)),
        ("max", lambda rows: rows.amax(dim=0)),
    ],
)
def test_each_graph_has_a_row_and_an_empty_one_zeros(kind: str, pool: object) -> None:
    assert callable(pool)
    x = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)) - 5
    batch = torch.tensor([0, 0, 0, 2, 2, 3])
    rows: list[Tensor] = [
        pool(x[batch == g]) if bool((batch == g).any()) else torch.zeros(3) for g in range(5)
    ]
    torch.testing.assert_close(readout(x, batch, 5, kind), torch.stack(rows))


def test_an_unknown_readout_is_refused() -> None:
    with pytest.raises(ValueError, match="readout is 'median'; allowed are sum, mean, max"):
        readout(torch.ones(1, 1), torch.zeros(1, dtype=torch.long), 1, "median")


@pytest.mark.parametrize("dtype", [torch.long, torch.bool, torch.float64, torch.bfloat16])
def test_the_encoder_takes_any_numeric_type(dtype: torch.dtype) -> None:
    encoder = LinearEncoder(3, 2)
    x = torch.eye(3).to(dtype)
    torch.testing.assert_close(encoder(x), encoder.weight.t() + encoder.bias)
