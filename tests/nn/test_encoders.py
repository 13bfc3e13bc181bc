"""Encoders of node features."""

from __future__ import annotations

import pytest
import torch
from ogb.graphproppred.mol_encoder import AtomEncoder

from unionsnn.nn.encoders import CategoricalEncoder, LinearEncoder, make_encoder

ATOMS = (119, 5, 12, 12, 10, 6, 6, 2, 2)


def draw(count: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.stack([torch.randint(n, (count,), generator=generator) for n in ATOMS], dim=1)


def test_atoms_are_encoded_as_ogb_encodes_them() -> None:
    theirs, ours = AtomEncoder(16), CategoricalEncoder(ATOMS, 16)
    with torch.no_grad():
        ours.table.weight.copy_(torch.cat([e.weight for e in theirs.atom_embedding_list]))
    x = draw(50)
    assert torch.allclose(ours(x), theirs(x), atol=1e-6)


def test_each_feature_is_drawn_as_a_matrix_of_its_own() -> None:
    torch.manual_seed(0)
    encoder = CategoricalEncoder((1000, 2), 64)
    first, second = encoder.table.weight.detach().split([1000, 2])
    for rows, n in ((first, 1000), (second, 2)):
        assert float(rows.abs().max()) <= (6 / (n + 64)) ** 0.5
    assert float(second.abs().max()) > float(first.abs().max())


def test_it_moves_and_loads_with_its_module() -> None:
    encoder = CategoricalEncoder((3, 4), 8)
    other = CategoricalEncoder((3, 4), 8)
    other.load_state_dict(encoder.state_dict())
    x = torch.tensor([[2, 3], [0, 0]])
    assert torch.equal(encoder(x), other(x))
    assert set(encoder.state_dict()) == {"table.weight"}
    assert encoder(x[:0]).shape == (0, 8)
    assert repr(encoder) == "CategoricalEncoder((3, 4), 8)"


@pytest.mark.parametrize("channels", [[3, 4], (3, 4)])
def test_what_the_data_say_chooses_the_encoder(channels: list[int]) -> None:
    assert isinstance(make_encoder(channels, 8), CategoricalEncoder)
    assert isinstance(make_encoder(3, 8), LinearEncoder)
