"""A pretended GPU: tensors on the CPU that claim to be on cuda:0, and count what a GPU would do.

    with pretended_cuda() as counts:
        task.to("cuda:0")
        ...
    counts.launches, counts.synchronisations, counts.mixed

The three count by place and operation. Kernels of one operation that are several launches are
estimated. To C++ the tensors are on torch's meta device, for which autograd needs no driver.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from lightning_fabric.utilities import move_data_to_device
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from unionsnn.config.schema import Config
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.training.build import build_task, fit_gates
from unionsnn.training.tasks import Task

CUDA = torch.device("cuda:0")

# Operations that wait for the GPU, because the host reads a result or a size.
_SYNCHRONISING = {
    "_local_scalar_dense", "nonzero", "masked_select", "_unique", "_unique2", "unique_dim",
    "unique_consecutive", "bincount", "equal", "histc", "_linalg_eigh",
}  # fmt: skip
# Kernels of operations that are more than one, roughly.
_KERNELS = {
    "nonzero": 3, "masked_select": 4, "_unique2": 8, "unique_dim": 8, "unique_consecutive": 8,
    "sort": 6, "argsort": 6, "topk": 3, "bincount": 8, "cumsum": 2, "repeat_interleave": 3,
    "masked_scatter": 3, "masked_scatter_": 3, "randperm": 4, "embedding_dense_backward": 4,
    "equal": 2,
}  # fmt: skip
_NO_KERNEL = {
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_unsafe_view",
    "lift_fresh", "set_", "resize_", "is_same_size", "_assert_tensor_metadata",
    "_fused_sdp_choice",
}  # fmt: skip
# Tensors that one launch of an operation on lists takes.
_TENSORS_A_LAUNCH = {"_fused_adam_": 36, "_fused_adamw_": 36}


@dataclass
class Counts:
    """What a GPU would have been asked to do, by place and operation.

    Attributes:
        launches: Kernels.
        synchronisations: Waits of the host for the GPU.
        mixed: Operations on tensors of both devices, which a GPU refuses.
    """

    launches: collections.Counter[str] = field(default_factory=collections.Counter)
    synchronisations: collections.Counter[str] = field(default_factory=collections.Counter)
    mixed: collections.Counter[str] = field(default_factory=collections.Counter)

    def clear(self) -> None:
        """Start again."""
        for each in (self.launches, self.synchronisations, self.mixed):
            each.clear()


class OnDevice(Tensor):
    """A tensor that claims to be on cuda:0, around one on the CPU."""

    held: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl
    device = property(lambda self: CUDA)
    is_cuda = property(lambda self: True)
    is_cpu = property(lambda self: False)
    is_meta = property(lambda self: False)

    @staticmethod
    def __new__(cls, held: Tensor) -> OnDevice:
        made = Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device="meta",
        )
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {}, Counts())

    def tolist(self) -> Any:
        """Return the numbers; torch refuses to for subclasses."""
        return self.cpu().tolist()

    def __repr__(self) -> str:
        return f"OnDevice({self.held})"


@contextlib.contextmanager
def pretended_cuda() -> Iterator[Counts]:
    """Let torch find one GPU, which computes on the CPU; count what it is asked to do."""
    counts = Counts()
    found = {
        "_lazy_init": lambda: None,
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "mem_get_info": lambda device=None: (80 * 10**9, 80 * 10**9),
        "get_device_name": lambda device=None: "pretended",
        "get_rng_state": lambda device=None: torch.zeros(16, dtype=torch.uint8),
        "set_rng_state": lambda state, device=None: None,
    }
    overwrite = torch.__future__.set_overwrite_module_params_on_conversion
    with mock.patch.multiple(torch.cuda, **found), _Functions(counts), _Dispatch(counts):
        # Otherwise a module on the device would keep its tensors and change what C++ knows of them.
        overwrite(True)
        try:
            yield counts
        finally:
            overwrite(False)


class _Dispatch(TorchDispatchMode):
    def __init__(self, counts: Counts) -> None:
        super().__init__()
        self.counts = counts

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {}, self.counts)


class _Functions(TorchFunctionMode):
    """What torch does without asking the dispatcher, or has no kernel of for the meta device."""

    def __init__(self, counts: Counts) -> None:
        super().__init__()
        self.counts = counts

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.nn.functional.scaled_dot_product_attention and _on_device(args[0]):
            q, k, v, mask = *args[:3], kwargs.pop("attn_mask", None)
            return _FusedAttention.apply(self.counts, kwargs, q, k, v, mask)
        if func is Tensor.to and _on_device(args[0]) and not kwargs.get("copy"):
            device, dtype, *_ = torch._C._nn._parse_to(*args[1:], **kwargs)
            if (device is None or device.type == "cuda") and dtype in (None, args[0].dtype):
                # It is there, and keeps what is noted on it.
                return args[0]
        if func is Tensor.new_tensor and _on_device(args[0]):
            return torch.tensor(args[1], dtype=kwargs.get("dtype", args[0].dtype)).to(CUDA)
        if func in (torch.tensor, torch.as_tensor) and not _on_device(args[0]):
            asked = kwargs.pop("device", None)
            return func(*args, **kwargs) if asked is None else func(*args, **kwargs).to(asked)
        return func(*args, **kwargs)


class _FusedAttention(torch.autograd.Function):
    """One launch forward; backward the products of rows and the kernel itself."""

    @staticmethod
    def forward(ctx: Any, counts: Counts, rest: dict[str, Any], *given: Any) -> Tensor:
        held = [_held(each) for each in given]
        ctx.inputs = [
            each if each is None else each.detach().requires_grad_(each.is_floating_point())
            for each in held
        ]
        q, k, v, mask = ctx.inputs
        with torch.utils._python_dispatch._disable_current_modes(), torch.enable_grad():
            ctx.output = torch.nn.functional.scaled_dot_product_attention(
                q, k, v, attn_mask=mask, **rest
            )
        ctx.counts = counts
        counts.launches[f"{_place()} attention"] += 1
        return OnDevice(ctx.output.detach())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        wanted = [x for x in ctx.inputs if x is not None and x.requires_grad]
        with torch.utils._python_dispatch._disable_current_modes():
            found = iter(torch.autograd.grad(ctx.output, wanted, _held(gradient)))
        ctx.counts.launches[f"{_place()} attention, backward"] += 2
        each = [
            None if x is None or not x.requires_grad else OnDevice(next(found)) for x in ctx.inputs
        ]
        return None, None, *each


def _on_device(x: object) -> bool:
    return isinstance(x, OnDevice)


def _held(x: Any) -> Any:
    return x.held if isinstance(x, OnDevice) else x


def _place() -> str:
    """Where the product, or else the caller, asks for an operation."""
    frame, caller = sys._getframe(1), ""
    while frame is not None:
        product, name = _file(frame.f_code.co_filename)
        if product:
            return f"{name}:{frame.f_lineno}"
        if name and not caller:
            caller = f"{name}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return caller


@functools.cache
def _file(path: str) -> tuple[bool, str]:
    """Whether a file is of the product, and its name; empty for other packages and this file."""
    _, product, name = path.rpartition("/src/unionsnn/")
    if product or "site-packages" in path or path == __file__:
        return bool(product), name if product else ""
    return False, Path(path).name


def _run(func: Any, args: Any, kwargs: dict[str, Any], counts: Counts) -> Any:
    """Compute on the CPU what is asked of either device, and count."""
    schema = func._schema
    name = schema.name.removeprefix("aten::")
    if name == "_pin_memory":
        return args[0].clone()
    tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
    asked = kwargs.get("device")
    if name == "copy_":
        here = _on_device(args[0])
    elif asked is None:
        here = any(map(_on_device, tensors))
    else:
        here = torch.device(asked).type != "cpu"
    if here or any(map(_on_device, tensors)):
        _count(func, name, args, kwargs, tensors, here, counts)
    if asked is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
        kwargs.pop("pin_memory", None)
    kwargs.pop("non_blocking", None)
    out = func(*tree_map(_held, args), **tree_map(_held, kwargs))
    written = [
        kwargs[a.name] if a.kwarg_only else args[i]
        for i, a in enumerate(schema.arguments)
        if a.alias_info is not None and a.alias_info.is_write
    ]
    if written:
        return out if not schema.returns else written[0] if len(written) == 1 else tuple(written)
    return tree_map(lambda x: OnDevice(x) if isinstance(x, Tensor) else x, out) if here else out


def _count(
    func: Any,
    name: str,
    args: Any,
    kwargs: dict[str, Any],
    tensors: list[Tensor],
    here: bool,
    counts: Counts,
) -> None:
    place = f"{_place()} {name}"
    copied = {"_to_copy": 0, "copy_": 1}.get(name)
    launches = 0 if func.is_view or name in _NO_KERNEL else _KERNELS.get(name, 1)
    waits = name in _SYNCHRONISING
    if copied is not None:
        source = args[copied]
        if _on_device(source) != here:
            waits = not here or not (kwargs.get("non_blocking") or args[2:] == (True,))
        elif name == "_to_copy" and kwargs.get("dtype", source.dtype) == source.dtype:
            # Moved to where it is already, which torch does not know.
            launches = 0 if "device" in kwargs else 1
    elif name in ("index", "index_put", "index_put_", "_index_put_impl_"):
        index = [x for x in args[1] if x is not None]
        accumulates = name != "index" and (args[3:4] == (True,) or kwargs.get("accumulate", False))
        masks = any(x.dtype in (torch.bool, torch.uint8) for x in index)
        # One number is written through a mask without its positions.
        filled = masks and name != "index" and args[2].numel() == 1 and not accumulates
        waits = (masks and not filled) or not all(map(_on_device, index))
        launches = 8 if accumulates else 5 if masks and not filled else 2 if args[2:] else 1
    elif name.startswith(("_foreach", "_fused_adam", "_fused_sgd")):
        launches = math.ceil(len(args[0]) / _TENSORS_A_LAUNCH.get(name, 100))
    elif name == "repeat_interleave":
        waits = isinstance(args[0], Tensor) and kwargs.get("output_size") is None
    elif not all(_on_device(x) or x.dim() == 0 for x in tensors):
        counts.mixed[place] += 1
    if launches:
        counts.launches[place] += launches
    if waits:
        counts.synchronisations[place] += 1


@dataclass
class Cost:
    """What a pretended GPU is asked to do.

    Attributes:
        step: In a training step, from gathering its batch to the optimiser.
        first: In the first step of an epoch.
        validation: In a validation step.
        mixed: Operations on tensors of both devices.
    """

    step: Counts
    first: Counts
    validation: Counts
    mixed: list[str]

    def row(self) -> dict[str, int]:
        """Return the numbers alone."""
        first, step = self.first, self.step
        waits = first.synchronisations.total() - step.synchronisations.total()
        return {
            "launches": step.launches.total(),
            "synchronisations": step.synchronisations.total(),
            "launches once an epoch": max(first.launches.total() - step.launches.total(), 0),
            "synchronisations once an epoch": max(waits, 0),
            "launches, validation": self.validation.launches.total(),
            "synchronisations, validation": self.validation.synchronisations.total(),
        }


def step_cost(config: Config, data: GraphDataModule) -> Cost:
    """Train, validate and test on a pretended GPU, as Lightning does; count it.

    Args:
        config: The configuration.
        data: Its data, of at least two training batches unless they are nodes of one graph; with
            split and generator.
    """
    torch.manual_seed(0)
    task = build_task(config, data)
    fit_gates(task.model, data)
    before, data.device = data.device, CUDA
    data._forget_batches()
    seen: dict[str, Counts] = {}
    mixed: set[str] = set()
    with pretended_cuda() as counts, mock.patch.object(Task, "log_dict"):

        def count(name: str, work: Callable[[], object]) -> None:
            counts.clear()
            work()
            seen[name] = Counts(*(each.copy() for each in vars(counts).values()))
            mixed.update(f"{name}: {place}" for place in counts.mixed)

        task.to(CUDA)
        optimizer = task.configure_optimizers()
        loader = data.train_dataloader()

        def step(batches: Iterator[Any]) -> None:
            batch = move_data_to_device(next(batches), CUDA)
            optimizer.zero_grad()
            torch.autograd.backward(task.train().training_step(batch, 0))
            optimizer.step()

        def evaluate(batches: Iterator[Any], work: Callable[..., object]) -> None:
            with torch.no_grad():
                work(move_data_to_device(next(batches), CUDA), 0)

        # The optimiser makes its state in the very first step.
        count("first", lambda: step(iter(loader)))
        batches = iter(loader)
        count("epoch", lambda: step(batches))
        count("step", lambda: step(batches if len(loader) > 1 else iter(loader)))
        task.eval()
        for name, part, work in (
            ("validation", data.val_dataloader, task.validation_step),
            ("test", data.test_dataloader, task.test_step),
        ):
            batches = iter(part())
            count(name, lambda: evaluate(batches, work))  # noqa: B023
    data.device = before
    data._forget_batches()
    return Cost(seen["step"], seen["epoch"], seen["validation"], sorted(mixed))
