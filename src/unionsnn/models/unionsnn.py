"""The union subgraph network."""

from __future__ import annotations

from typing import Unpack

from unionsnn.base.errors import RequestError
from unionsnn.models.arguments import factory_of
from unionsnn.models.mpnn import MPNN, StackOptions
from unionsnn.models.parts import two_layer_mlp
from unionsnn.nn.conv.union import UnionConv
from unionsnn.nn.gates import StructuralGate


class UnionSNN(MPNN):
    r"""UnionSNN: MLP((1 + eps) h_v + sum_u Trans(a_vu) * h_u) in each layer.

    Equation 3 of "Union Subgraph Neural Networks" (Xu et al., AAAI 2024), with a separate Trans in
    each layer. With edge features, the message is Trans(a_vu) * ReLU(h_u + e_vu), see `UnionConv`.

    Args:
        input_linear: Whether a linear map comes before message and self term, as in the authors'
            code.
        stack: Arguments of `MPNN`; `gate` is ``default`` and must not be None.

    Raises:
        RequestError: if there is no gate.
    """

    reads_edges = True
    default_gate = "default"

    def __init__(self, *, input_linear: bool = False, **stack: Unpack[StackOptions]) -> None:
        gate = factory_of(stack.get("gate", self.default_gate), StructuralGate)
        if gate is None:
            raise RequestError(
                "UnionSNN needs a gate; without one it is GIN: use model=gin, in Python "
                "unionsnn.models.GIN. With the coefficients as an edge feature alone "
                "(gate.inject=edge) it is model=union_gin.",
                code="model.argument",
            )
        # One factory for all layers.
        stack["gate"] = gate

        norm = stack.get("norm", "batch")

        def conv(channels: int) -> UnionConv:
            mlp = two_layer_mlp(channels, norm)
            return UnionConv(mlp, gate(channels), input_linear=input_linear)

        super().__init__(conv, **stack)
