"""How many functions of this package one value passes: a learning rate, a trial, an edge.

A station is a function of the package that hands the value on: it returns something that carries
it, or it is on the way down to the goal with it among its arguments. What only looks at the value
and returns nothing of it, such as a check, is a side road. The value is a number or text that is
it, an array with one row for each edge (of the whole set, or of the training batch), or a container
of such. Each function counts once, in the order in which it first hands the value on. Given the
source folder of another version, that one is counted by the same rule.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

LR = 0.0123456


def carries(value: Any, is_it: Callable[[Any], bool], depth: int = 6) -> bool:
    """Whether a value is, or holds somewhere inside, what is looked for."""
    if is_it(value):
        return True
    if depth == 0:
        return False
    if isinstance(value, Mapping):
        return any(carries(v, is_it, depth - 1) for v in [*value.values()][:200])
    if isinstance(value, list | tuple):
        return any(carries(v, is_it, depth - 1) for v in value[:50])
    kind = type(value)
    own = kind.__module__.startswith(("unionsnn", "torch_geometric", "omegaconf"))
    if own and not isinstance(value, type):
        with contextlib.suppress(TypeError):
            fields = {**vars(value)}
            return any(carries(v, is_it, depth - 1) for v in fields.values())
        # A class with slots has no vars.
        names = (
            [f.name for f in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else []
        )
        return any(carries(getattr(value, name), is_it, depth - 1) for name in names)
    return False


@contextlib.contextmanager
def watched(
    source: Path, is_it: Callable[[Any], bool], reached: Callable[[Any], bool]
) -> Iterator[dict[str, None]]:
    """Collect the stations until a frame is the goal."""
    stations: dict[str, None] = {}
    over = False
    root = str(source)

    def own_name(frame: Any) -> str | None:
        code = frame.f_code
        if not code.co_filename.startswith(root) or code.co_name.startswith("<"):
            return None
        module = Path(code.co_filename).relative_to(root).with_suffix("").as_posix()
        return f"{module.replace('/', '.')}.{code.co_qualname}"

    def profile(frame: Any, event: str, argument: Any) -> None:
        nonlocal over
        if over:
            return
        if event == "return":
            name = own_name(frame)
            if name is not None and name not in stations and carries(argument, is_it):
                stations[name] = None
        elif event == "call" and reached(frame):
            over = True
            above = []
            while frame is not None:
                name = own_name(frame)
                if name is not None and carries({**frame.f_locals}, is_it):
                    above.append(name)
                frame = frame.f_back
            stations.update(dict.fromkeys(reversed(above)))

    sys.setprofile(profile)
    try:
        yield stations
    finally:
        sys.setprofile(None)
        assert over, "the goal was not reached"


def run(main: Callable[[], None], *words: str) -> None:
    sys.argv = ["unionsnn", *words]
    with contextlib.suppress(SystemExit):
        main()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--source", type=Path, default=Path(__file__).parents[1] / "src")
    parser.add_argument(
        "--mirror", type=Path, required=True, help="Folder with TUDataset/MUTAG.zip."
    )
    parser.add_argument("walk", choices=["lr", "trial", "edge"])
    given = parser.parse_args()
    sys.path.insert(0, str(given.source))
    import unionsnn

    assert Path(unionsnn.__file__).is_relative_to(given.source)
    import numpy as np
    import torch

    from unionsnn.cli import main as command

    source = given.source / "unionsnn"

    def is_lr(value: Any) -> bool:
        return (isinstance(value, float) and value == LR) or (
            isinstance(value, str) and str(LR) in value
        )

    with tempfile.TemporaryDirectory() as folder:
        small = [
            "trainer.max_epochs=1",
            "model.hidden_channels=8",
            "model.num_layers=2",
            "trainer.accelerator=cpu",
            "trainer.progress=none",
            f"paths.output={folder}/runs",
            f"paths.data={folder}/data",
        ]
        mutag = [
            "data=mutag",
            f"data.mirror={given.mirror}",
            "model=union_gin",
            "data.batch_size=500",
        ]
        if given.walk == "lr":

            def is_adam(frame: Any) -> bool:
                return frame.f_code.co_qualname == "Adam.__init__"

            with watched(source, is_lr, is_adam) as stations:
                run(command, "train", *mutag, *small, f"optimizer.lr={LR}")
        elif given.walk == "trial":
            study = Path(folder) / "walk.yaml"
            study.write_text(
                "overrides: [experiment=tu, data=mutag, protocol=cross_validation, "
                f"protocol.folds=3]\nspace: {{optimizer.lr: 'choice({LR})'}}\n"
                "objective: val_accuracy\nsampler: {name: grid}\n"
            )

            def is_record(frame: Any) -> bool:
                path = frame.f_locals.get("path")
                return frame.f_code.co_name == "atomic_write" and str(path).endswith("study.json")

            words = [f"data.mirror={given.mirror}", "model=union_gin", *small]
            with watched(source, is_lr, is_record) as stations:
                run(command, "sweep", str(study), "--trials-only", *words)
        else:
            sizes = {7442}

            def is_edges(value: Any) -> bool:
                arrays = np.ndarray | torch.Tensor
                return isinstance(value, arrays) and bool(sizes & set(value.shape))

            def is_gated(frame: Any) -> bool:
                for value in frame.f_locals.values():
                    if frame.f_code.co_name == "training_step" and hasattr(value, "edge_index"):
                        sizes.add(int(value.edge_index.shape[1]))
                return frame.f_code.co_qualname == "UnionPlugin._gated" and len(sizes) > 1

            with watched(source, is_edges, is_gated) as stations:
                run(command, "train", *mutag, *small, "protocol=holdout")
    for number, name in enumerate(stations, 1):
        print(f"{number:3} {name}")


if __name__ == "__main__":
    main()
