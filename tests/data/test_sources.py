from __future__ import annotations

import contextlib
import hashlib
import http.server
import io
import mmap
import multiprocessing
import os
import shutil
import socket
import threading
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from unionsnn.base.errors import DamagedFileError, DataError
from unionsnn.base.files import atomic_write
from unionsnn.data import arrays
from unionsnn.data.arrays import GraphArrays
from unionsnn.data.sources import download as sources
from unionsnn.data.sources.download import data_root, fetch, open_zip, read_members

NAME = "TUDataset/TINY.zip"
FORK = multiprocessing.get_context("fork")


def zip_bytes(members: dict[str, bytes] | None = None) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in (members or {"TINY/TINY_A.txt": b"1, 2\n2, 1\n" * 200}).items():
            # A time stamp of its own would make two archives of the same members differ.
            member = zipfile.ZipInfo(name, date_time=(2024, 1, 1, 0, 0, 0))
            archive.writestr(member, content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def put(folder: Path, content: bytes, name: str = NAME) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def leftovers(root: Path) -> list[str]:
    return sorted(p.name for p in (root / "raw").rglob("*") if p.is_file() and p.suffix != ".lock")


@pytest.fixture(autouse=True)
def _no_waiting_and_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_RETRY_WAIT", 0.0)
    for name in ("UNIONSNN_MIRROR", "UNIONSNN_DATA"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    folder = tmp_path / "mirror"
    put(folder, zip_bytes())
    return folder


class Server:
    """A web server on the loopback device whose answers a test sets."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, str, bytes]] = {}
        self.failures: dict[str, int] = {}
        self.cut: set[str] = set()
        self.endless: dict[str, bytes] = {}
        self.headless: set[str] = set()
        self.requests: list[str] = []
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                owner.requests.append(self.path)
                if self.path in owner.headless:
                    with contextlib.suppress(OSError):
                        self.wfile.write(b"HTTP/1.0 200 OK\r\nX-A: ")
                        for _ in range(60):
                            self.wfile.write(b"x")
                            time.sleep(0.01)
                    return
                if self.path in owner.endless:
                    self.send_response(200)
                    self.end_headers()
                    with contextlib.suppress(OSError):
                        while True:
                            self.wfile.write(owner.endless[self.path])
                            time.sleep(0.01)
                    return
                status, kind, body = owner.answers.get(self.path, (404, "text/html", b"<html>"))
                if owner.failures.get(self.path, 0) > 0:
                    owner.failures[self.path] -= 1
                    status, body = 503, b"later"
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: len(body) // 2] if self.path in owner.cut else body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.httpd.server_address[1]}"

    def serve(self, name: str, body: bytes, kind: str = "application/zip") -> str:
        self.answers[f"/{name}"] = (200, kind, body)
        return f"{self.url}/{name}"


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.httpd.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.httpd.shutdown()
    server.httpd.server_close()
    thread.join()


def as_folder(mirror: Path) -> str | Path:
    return mirror


def as_file_url(mirror: Path) -> str | Path:
    return mirror.as_uri()


@pytest.mark.parametrize("form", [as_folder, str, as_file_url])
def test_a_local_mirror_is_copied(
    root: Path, mirror: Path, form: Callable[[Path], str | Path]
) -> None:
    path = fetch(NAME, upstream=None, root=root, mirror=form(mirror), offline=True)
    assert path == root / "raw" / NAME
    assert path.read_bytes() == (mirror / NAME).read_bytes()
    assert leftovers(root) == ["TINY.zip", "TINY.zip.sha256"]


def test_what_is_there_is_used_without_any_place(root: Path, mirror: Path) -> None:
    first = fetch(NAME, upstream=None, root=root, mirror=mirror)
    assert fetch(NAME, upstream=None, root=root) == first


def test_a_file_put_there_by_hand_is_accepted_and_then_guarded(root: Path) -> None:
    path = put(root / "raw", zip_bytes())
    assert fetch(NAME, upstream=None, root=root) == path
    put(root / "raw", zip_bytes({"other": b"other"}))
    with (
        pytest.warns(UserWarning, match=r"TINY\.zip fails its checksum .* it is fetched again"),
        pytest.raises(DataError, match=r"could not be obtained"),
    ):
        fetch(NAME, upstream=None, root=root)


def test_the_mirror_may_be_named_by_the_environment(
    root: Path, mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNIONSNN_MIRROR", str(mirror))
    assert fetch(NAME, upstream=None, root=root).exists()


def test_a_damaged_file_in_the_root_is_fetched_again_with_one_warning(
    root: Path, mirror: Path
) -> None:
    path = fetch(NAME, upstream=None, root=root, mirror=mirror)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.warns(UserWarning, match="fails its checksum") as caught:
        fetch(NAME, upstream=None, root=root, mirror=mirror)
    assert len(caught) == 1
    assert path.read_bytes() == (mirror / NAME).read_bytes()


def test_upstream_is_downloaded_with_progress(root: Path, server: Server) -> None:
    body = zip_bytes({"a": os.urandom(300_000)})
    url = server.serve(NAME, body)
    seen: list[tuple[int, int]] = []
    path = fetch(NAME, upstream=url, root=root, progress=lambda *step: seen.append(step))
    assert path.read_bytes() == body
    assert seen[0][0] < len(body)
    assert seen[-1] == (len(body), len(body))


def test_an_http_mirror_comes_before_upstream(root: Path, server: Server) -> None:
    server.serve(NAME, zip_bytes())
    path = fetch(NAME, upstream=f"{server.url}/never", root=root, mirror=server.url)
    assert path.read_bytes() == zip_bytes()
    assert "/never" not in server.requests


def test_a_mirror_that_lacks_the_file_falls_through_to_upstream(
    root: Path, tmp_path: Path, server: Server
) -> None:
    url = server.serve(NAME, zip_bytes())
    (tmp_path / "empty").mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fetch(NAME, upstream=url, root=root, mirror=tmp_path / "empty").exists()


def test_when_all_fails_every_place_and_the_remedies_are_named(
    root: Path, tmp_path: Path, server: Server, mirror: Path
) -> None:
    url = f"{server.url}/gone/{NAME}"
    with pytest.raises(DataError) as caught:
        fetch(NAME, upstream=url, root=root, mirror=tmp_path / "nowhere")
    message = str(caught.value)
    assert f"mirror {tmp_path / 'nowhere' / NAME}: no such folder" in message
    assert f"upstream {url}: the server answers 404" in message
    assert "data.mirror=... or UNIONSNN_MIRROR" in message
    assert f"put the file at {root / 'raw' / NAME}" in message
    assert leftovers(root) == []
    assert server.requests.count(f"/gone/{NAME}") == 1
    assert fetch(NAME, upstream=url, root=root, mirror=mirror).exists()


def test_without_any_place_the_remedies_are_named(root: Path) -> None:
    with pytest.raises(DataError, match="no mirror is set, and there is no upstream address"):
        fetch(NAME, upstream=None, root=root)


def test_offline_leaves_addresses_alone(root: Path, server: Server) -> None:
    url = server.serve(NAME, zip_bytes())
    with pytest.raises(DataError, match="not tried, because offline is set"):
        fetch(NAME, upstream=url, root=root, mirror=server.url, offline=True)
    assert server.requests == []


def test_an_unreachable_server_is_said_to_be_so(root: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(DataError, match="cannot be reached"):
        fetch(NAME, upstream=f"http://127.0.0.1:{port}/x.zip", root=root)


def test_an_unknown_kind_of_address_is_refused_by_name(root: Path) -> None:
    with pytest.raises(DataError, match="s3:// is not supported, use a folder, file:// or http"):
        fetch(NAME, upstream=None, root=root, mirror="s3://bucket")


def test_a_server_that_stumbles_is_asked_again(root: Path, server: Server) -> None:
    url = server.serve(NAME, zip_bytes())
    server.failures[f"/{NAME}"] = 2
    assert fetch(NAME, upstream=url, root=root).exists()
    assert len(server.requests) == 3


def test_a_server_that_keeps_failing_is_given_up(root: Path, server: Server) -> None:
    url = server.serve(NAME, zip_bytes())
    server.failures[f"/{NAME}"] = 99
    with pytest.raises(DataError, match="the server answers 503"):
        fetch(NAME, upstream=url, root=root)
    assert len(server.requests) == 3


def test_a_connection_that_breaks_off_leaves_nothing(root: Path, server: Server) -> None:
    url = server.serve(NAME, zip_bytes())
    server.cut.add(f"/{NAME}")
    with pytest.raises(DataError, match="the connection broke off in the middle"):
        fetch(NAME, upstream=url, root=root)
    assert leftovers(root) == []
    server.cut.clear()
    assert fetch(NAME, upstream=url, root=root).read_bytes() == zip_bytes()


def test_a_web_page_is_not_taken_for_the_file(root: Path, server: Server) -> None:
    url = server.serve(NAME, b"\n<!DOCTYPE html><html>Please log in</html>", "text/html")
    with pytest.raises(DataError, match="is a web page, not the file"):
        fetch(NAME, upstream=url, root=root)
    assert leftovers(root) == []
    server.serve(NAME, zip_bytes())
    assert fetch(NAME, upstream=url, root=root).exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (zip_bytes()[:-30], "is not a valid zip file"),
        (b"", "is empty"),
        (b"no zip at all", "is not a valid zip file"),
        (zip_bytes({"../evil.txt": b"x"}), "points outside its folder"),
        (zip_bytes({"/etc/evil": b"x"}), "points outside its folder"),
        (zip_bytes({"a/..\\evil": b"x"}), "points outside its folder"),
    ],
)
def test_a_bad_file_in_the_mirror_is_named_and_not_kept(
    root: Path, mirror: Path, content: bytes, message: str
) -> None:
    put(mirror, content)
    with pytest.raises(DataError, match=message):
        fetch(NAME, upstream=None, root=root, mirror=mirror)
    assert leftovers(root) == []
    assert (mirror / NAME).read_bytes() == content
    put(mirror, zip_bytes())
    assert fetch(NAME, upstream=None, root=root, mirror=mirror).exists()


def flipped(content: bytes) -> bytes:
    middle = len(content) // 4
    return content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :]


def test_a_flipped_byte_in_the_mirror_is_seen_without_any_known_hash(
    root: Path, mirror: Path
) -> None:
    put(mirror, flipped(zip_bytes({"a": os.urandom(4000)})))
    with pytest.raises(DataError, match="is not a valid zip file"):
        fetch(NAME, upstream=None, root=root, mirror=mirror)


def test_a_bad_file_in_the_mirror_is_warned_of_when_upstream_helps_out(
    root: Path, mirror: Path, server: Server
) -> None:
    put(mirror, b"garbage")
    url = server.serve(NAME, zip_bytes())
    with pytest.warns(UserWarning, match=r"is not a valid zip file .*; trying http"):
        assert fetch(NAME, upstream=url, root=root, mirror=mirror).read_bytes() == zip_bytes()


@pytest.mark.parametrize("over_http", [False, True])
def test_sha256sums_of_a_mirror_are_verified(
    root: Path, mirror: Path, server: Server, over_http: bool
) -> None:
    place: str | Path = mirror
    good = f"{hashlib.sha256(zip_bytes()).hexdigest()}  ./{NAME}\n".encode()
    bad = f"{'0' * 64}  other.zip\n{'1' * 64} *{NAME}\n".encode()
    if over_http:
        place = server.url
        server.serve(NAME, zip_bytes())
        server.serve("SHA256SUMS", bad, "text/plain")
    put(mirror, bad, "SHA256SUMS")
    with pytest.raises(DataError, match=r"fails its checksum .*expected 111111111111"):
        fetch(NAME, upstream=None, root=root, mirror=place)
    assert leftovers(root) == []
    server.serve("SHA256SUMS", good, "text/plain")
    put(mirror, good, "SHA256SUMS")
    assert fetch(NAME, upstream=None, root=root, mirror=place).exists()


def test_a_known_hash_is_verified_in_the_root_and_in_the_mirror(root: Path, mirror: Path) -> None:
    known = hashlib.sha256(zip_bytes()).hexdigest()
    with pytest.raises(DataError, match=r"fails its checksum .*expected abababababab"):
        fetch(NAME, upstream=None, root=root, mirror=mirror, sha256="ab" * 32)
    put(root / "raw", zip_bytes({"other": b"x"}))
    with pytest.warns(UserWarning, match="fails its checksum"):
        fetch(NAME, upstream=None, root=root, mirror=mirror, sha256=known)


@pytest.mark.parametrize("name", ["../x.zip", "/etc/x.zip", "a/../../x.zip", ""])
def test_a_path_out_of_the_root_is_refused(root: Path, name: str) -> None:
    with pytest.raises(DataError, match="must be a path relative to the data root"):
        fetch(name, upstream=None, root=root)
    assert not root.exists()


def test_a_root_that_cannot_be_written_is_named(tmp_path: Path, mirror: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match=r"cannot be written .* paths.data=FOLDER"):
        fetch(NAME, upstream=None, root=tmp_path / "file", mirror=mirror)


def test_data_root_prefers_the_argument_then_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert data_root().name == "unionsnn"
    monkeypatch.setenv("UNIONSNN_DATA", str(tmp_path / "env"))
    assert data_root() == tmp_path / "env"
    assert data_root(tmp_path / "argument") == tmp_path / "argument"


def _fetch_at_once(
    root: Path, url: str, start: object, results: multiprocessing.SimpleQueue[object]
) -> None:
    start.wait()  # type: ignore[attr-defined]
    try:
        results.put(fetch(NAME, upstream=url, root=root).read_bytes())
    except BaseException as error:
        results.put(repr(error))


def test_eight_processes_download_once(root: Path, server: Server) -> None:
    body = zip_bytes({"a": os.urandom(2_000_000)})
    url = server.serve(NAME, body)
    start = FORK.Barrier(8)
    results = FORK.SimpleQueue()
    processes = [
        FORK.Process(target=_fetch_at_once, args=(root, url, start, results)) for _ in range(8)
    ]
    for process in processes:
        process.start()
    contents = [results.get() for _ in processes]
    for process in processes:
        process.join()
    assert contents == [body] * 8
    assert server.requests == [f"/{NAME}"]
    assert leftovers(root) == ["TINY.zip", "TINY.zip.sha256"]


def _fetch_slowly(root: Path, mirror: Path, reached: object) -> None:
    def stop(*arguments: object) -> None:
        reached.set()  # type: ignore[attr-defined]
        time.sleep(60)

    sources.os.replace = stop  # type: ignore[attr-defined]
    fetch(NAME, upstream=None, root=root, mirror=mirror)


def test_a_killed_process_leaves_nothing_that_harms(root: Path, mirror: Path) -> None:
    reached = FORK.Event()
    process = FORK.Process(target=_fetch_slowly, args=(root, mirror, reached))
    process.start()
    assert reached.wait(30)
    process.kill()
    process.join()
    assert not (root / "raw" / NAME).exists()
    fetch(NAME, upstream=None, root=root, mirror=mirror)
    assert leftovers(root) == ["TINY.zip", "TINY.zip.sha256"]


def test_members_are_read(mirror: Path) -> None:
    content = read_members(mirror / NAME, ["TINY/TINY_A.txt"])
    assert content == {"TINY/TINY_A.txt": b"1, 2\n2, 1\n" * 200}


def test_a_member_that_is_missing_is_named(mirror: Path) -> None:
    with pytest.raises(DataError, match=r"has no member B.txt; it holds TINY/TINY_A.txt"):
        read_members(mirror / NAME, ["B.txt"])


def test_a_zip_that_does_not_exist_or_points_outside_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none.zip does not exist"):
        open_zip(tmp_path / "none.zip")
    path = put(tmp_path, zip_bytes({"../evil": b"x"}), "evil.zip")
    with pytest.raises(DataError, match=r"holds the member '../evil', which points outside"):
        open_zip(path)


@pytest.mark.parametrize("damage", [lambda content: content[:-30], flipped])
def test_a_damaged_zip_in_the_root_is_removed_and_the_next_fetch_mends_it(
    root: Path, mirror: Path, damage: Callable[[bytes], bytes]
) -> None:
    put(mirror, zip_bytes({"a": os.urandom(4000)}))
    path = fetch(NAME, upstream=None, root=root, mirror=mirror)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=r"TINY.zip is not a valid zip .* rerun the command"):
        read_members(path, ["a"])
    assert leftovers(root) == []
    assert read_members(fetch(NAME, upstream=None, root=root, mirror=mirror), ["a"])


def test_a_damaged_zip_of_the_user_is_left_alone(tmp_path: Path) -> None:
    path = put(tmp_path, zip_bytes()[:-30], "mine.zip")
    with pytest.raises(DataError, match=r"mine.zip is not a valid zip file .*: replace it"):
        open_zip(path)
    assert path.exists()


def sample() -> GraphArrays:
    return GraphArrays(
        edge_index=np.array([[0, 1, 0, 1], [1, 0, 1, 0]]),
        node_slices=np.array([0, 2, 4, 4]),
        edge_slices=np.array([0, 2, 4, 4]),
        y=np.array([0, 1, 0]),
        node_labels=np.array([[0], [1], [2], [0]]),
        edge_attributes=np.array([[0.5], [1.5], [2.5], [3.5]], dtype=np.float32),
        class_names=("-1", "1"),
    )


def test_graphs_survive_saving(tmp_path: Path) -> None:
    graphs = sample()
    graphs.validate()
    graphs.save(tmp_path / "new" / "graphs.npz")
    loaded = GraphArrays.load(tmp_path / "new" / "graphs.npz")
    assert loaded.content_hash() == graphs.content_hash()
    assert loaded.class_names == ("-1", "1")
    assert (loaded.num_graphs, loaded.num_nodes, loaded.num_edges) == (3, 4, 4)
    assert loaded.num_classes == 2
    assert loaded.node_attributes is None
    np.testing.assert_array_equal(loaded.edge_attributes, graphs.edge_attributes)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["graphs.npz"]


def test_graphs_without_edges_survive_saving(tmp_path: Path) -> None:
    graphs = GraphArrays(
        edge_index=np.empty((2, 0), dtype=np.int64),
        node_slices=np.array([0, 1]),
        edge_slices=np.array([0, 0]),
        y=np.array([[0.5, 2.0]], dtype=np.float32),
    )
    graphs.validate()
    graphs.save(tmp_path / "graphs.npz")
    assert GraphArrays.load(tmp_path / "graphs.npz").content_hash() == graphs.content_hash()
    assert graphs.num_classes == 0


def test_large_files_are_mapped_and_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "MAPPED_BYTES", 0)
    graphs, path = replace(sample(), edge_labels=np.arange(8).reshape(4, 2)), tmp_path / "g.npz"
    graphs.save(path)
    loaded = GraphArrays.load(path)
    assert loaded.content_hash() == graphs.content_hash()
    assert loaded.class_names == graphs.class_names
    for name in ("edge_index", "y", "edge_labels", "edge_attributes"):
        array = getattr(loaded, name)
        assert isinstance(array.base, np.memmap | mmap.mmap), name
        assert array.flags.aligned
        assert array.flags.writeable
    # What is changed in memory is not changed on disk.
    loaded.edge_index[:] = 0
    assert GraphArrays.load(path).content_hash() == graphs.content_hash()
    # The file is that of numpy, and one that numpy wrote is read too.
    with np.load(path) as archive:
        content = dict(archive)
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "other.npz", **content)
        assert GraphArrays.load(tmp_path / "other.npz").content_hash() == graphs.content_hash()
    whole = path.read_bytes()
    other = whole.replace(np.float32(2.5).tobytes(), np.float32(7.5).tobytes())
    for damaged in (whole[: len(whole) // 2], other):
        path.write_bytes(damaged)
        with pytest.raises(DamagedFileError):
            GraphArrays.load(path)


def test_every_array_counts_in_the_hash() -> None:
    graphs = sample()
    changes = {
        "edge_index": graphs.edge_index[::-1],
        "edge_slices": np.array([0, 4, 4, 4]),
        "node_slices": np.array([0, 2, 2, 4]),
        "y": np.array([1, 1, 0]),
        "node_labels": None,
        "edge_labels": np.zeros((4, 1), dtype=np.int64),
        "edge_attributes": np.zeros((4, 1), dtype=np.float32),
        "class_names": ("1", "2"),
    }
    hashes = {replace(graphs, **{k: v}).content_hash() for k, v in changes.items()}
    assert len(hashes | {graphs.content_hash()}) == len(changes) + 1
    fortran = replace(graphs, edge_index=np.asfortranarray(graphs.edge_index))
    assert fortran.content_hash() == graphs.content_hash()


@pytest.mark.parametrize("keep", [0, 40, 0.5, -5])
def test_a_damaged_cache_file_is_told_apart_from_a_missing_one(tmp_path: Path, keep: float) -> None:
    path = tmp_path / "graphs.npz"
    with pytest.raises(FileNotFoundError):
        GraphArrays.load(path)
    sample().save(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content)) if 0 < keep < 1 else int(keep)])
    with pytest.raises(DamagedFileError, match=r"graphs.npz"):
        GraphArrays.load(path)


def test_an_altered_cache_file_fails_its_checksum(tmp_path: Path) -> None:
    path = tmp_path / "graphs.npz"
    sample().save(path)
    with np.load(path) as archive:
        content = dict(archive)
    content["y"] = content["y"][::-1] + 1
    np.savez(path, **content)
    with pytest.raises(DamagedFileError, match="fails its checksum"):
        GraphArrays.load(path)
    np.savez(path, y=np.zeros(3))
    with pytest.raises(DamagedFileError, match="cannot be read"):
        GraphArrays.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edge_index": np.array([[0, 1, 0, 2], [1, 0, 1, 0]])}, r"names node \[2, 0\] in edge 3"),
        ({"edge_index": np.array([[0, 1, 0, -1], [1, 0, 1, 0]])}, r"its graph 1 has only nodes"),
        ({"edge_index": np.zeros((2, 3), dtype=np.int64)}, r"must be \(2, 4\)"),
        ({"edge_index": np.zeros((2, 4))}, "edge_index must be a numpy array of int64, not float"),
        ({"node_slices": np.array([0, 3, 2, 4])}, "node_slices must start with 0"),
        ({"edge_slices": np.array([0, 4])}, r"edge_slices has shape \(2,\), but must be \(4,\)"),
        ({"y": np.array([0, 1])}, "y has shape .* 3 rows"),
        ({"y": np.array([0.0, 1.0, 2.0])}, "y must be int64 .* not float64"),
        ({"y": np.array([0, -1, 2])}, "y has a negative value in row 1"),
        ({"node_labels": np.array([0, 1, 2, 0])}, "node_labels has shape"),
        ({"node_labels": [[0]]}, "node_labels must be a numpy array of int64, not list"),
        (
            {"edge_attributes": np.array([[0], [np.nan], [1], [np.inf]], dtype=np.float32)},
            "edge_attributes has a value that is not finite in row 1",
        ),
    ],
)
def test_validation_names_what_is_wrong(change: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        GraphArrays(**(vars(sample()) | change)).validate()


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    atomic_write(path, lambda file: file.write(b"old"))

    def fail(file: io.BufferedIOBase) -> None:
        file.write(b"half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        atomic_write(path, fail)  # type: ignore[arg-type]
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_what_a_killed_writer_left_is_deleted_by_the_next_write_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "out[1].csv"
    if not (pid := os.fork()):
        with contextlib.suppress(BaseException):
            atomic_write(path, lambda file: os._exit(0))
        os._exit(1)
    os.waitpid(pid, 0)
    (left,) = tmp_path.iterdir()
    assert left.name.endswith(".part")
    others = [
        left.with_name(left.name.replace(f"-{pid}-", f"-{os.getpid()}-")),
        left.with_name(f".another{left.name}"),
        left.with_name(f".{path.name}.00000000-{pid}-00.part"),
    ]
    for other in others:
        other.write_bytes(b"")
    atomic_write(path, lambda file: file.write(b"whole"))
    assert {*tmp_path.iterdir()} == {path, *others}


# -- bounds ----------------------------------------------------------------------------------


def test_a_download_without_length_ends_at_its_limit(root: Path, server: Server) -> None:
    server.endless[f"/{NAME}"] = bytes(50_000)
    with pytest.raises(DataError, match=r"at most 200\.0 kB belong there"):
        fetch(NAME, upstream=f"{server.url}/{NAME}", root=root, limit=200_000)
    assert leftovers(root) == []
    assert len(server.requests) == 1


def test_a_download_that_trickles_is_given_up(
    root: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_PATIENCE", 0.1)
    server.endless[f"/{NAME}"] = b"x"
    with pytest.raises(DataError, match="which is too slow"):
        fetch(NAME, upstream=f"{server.url}/{NAME}", root=root)
    assert leftovers(root) == []
    server.endless.clear()
    server.headless.add(f"/{NAME}")
    with pytest.raises(DataError, match=r"no whole answer within 0\.1 seconds"):
        fetch(NAME, upstream=f"{server.url}/{NAME}", root=root)
    assert leftovers(root) == []


def test_a_length_beyond_the_limit_or_the_disk_is_refused_before_the_transfer(
    root: Path, server: Server, mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = server.serve(NAME, zip_bytes())
    for place in (server.url, mirror):
        with pytest.raises(DataError, match="at most 20 bytes belong there"):
            fetch(NAME, upstream=None, root=root, mirror=place, limit=20)
    usage = shutil.disk_usage(root)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=10))
    for given in ({"upstream": url}, {"upstream": None, "mirror": mirror}):
        with pytest.raises(DataError, match="free disk space or choose another") as caught:
            fetch(NAME, root=root, **given)
        assert caught.value.codes == ["data.root"]
    assert leftovers(root) == []


def test_a_pipe_is_no_file(root: Path, mirror: Path) -> None:
    (mirror / NAME).unlink()
    os.mkfifo(mirror / NAME)
    with pytest.raises(DataError, match="is a folder, a pipe or a device, not a file"):
        fetch(NAME, upstream=None, root=root, mirror=mirror)
    os.mkfifo(root / "raw" / NAME)
    with pytest.raises(DataError, match="is a folder, a pipe or a device") as caught:
        fetch(NAME, upstream=None, root=root, mirror=mirror)
    assert caught.value.codes == ["data.path"]
    os.mkfifo(root / "graphs.npz")
    with pytest.raises(DamagedFileError, match="it is not a regular file"):
        GraphArrays.load(root / "graphs.npz")


def test_an_archive_that_unpacks_to_far_more_than_it_is_is_refused_unread(
    root: Path, mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_ALWAYS_UNPACKED", 1_000_000)
    path = put(mirror, zip_bytes({"a": bytes(3_000_000), "b": bytes(2_000_000)}))
    monkeypatch.setattr(zipfile.ZipFile, "testzip", lambda self: pytest.fail("it was unpacked"))
    with pytest.raises(DataError, match=r"unpacks to 5\.0 MB: it is refused"):
        fetch(NAME, upstream=None, root=root, mirror=mirror)
    with pytest.raises(DataError, match=r"unpacks to 5\.0 MB") as caught:
        read_members(path, ["a"])
    assert caught.value.codes == ["data.unsafe"]
    assert sources.unpacked_limit(1) == 1_000_000
    assert sources.unpacked_limit(50_000) == 5_000_000


@pytest.mark.parametrize(
    ("sums", "message"),
    [
        (b"\xff\xfe\x00", "can't decode"),
        (b"<html>Log in</html>", "line 1 is not a SHA-256 and a file name"),
        (b"# comment\n\nabc  " + NAME.encode(), "line 3 is not a SHA-256"),
        (f"{'1' * 63}  {NAME}".encode(), "line 1 is not a SHA-256"),
        (None, "is a folder, a pipe or a device"),
    ],
)
def test_a_list_of_hashes_that_cannot_be_read_is_not_absent(
    root: Path, mirror: Path, sums: bytes | None, message: str
) -> None:
    if sums is None:
        os.mkfifo(mirror / "SHA256SUMS")
    else:
        put(mirror, sums, "SHA256SUMS")
    with pytest.raises(DataError, match=f"its list of hashes, .*SHA256SUMS, cannot be .*{message}"):
        fetch(NAME, upstream=None, root=root, mirror=mirror)
    assert leftovers(root) == []


def test_a_list_of_hashes_that_the_server_keeps_back_is_not_absent(
    root: Path, server: Server
) -> None:
    server.serve(NAME, zip_bytes())
    server.answers["/SHA256SUMS"] = (403, "text/plain", b"no")
    with pytest.raises(
        DataError, match=r"list of hashes, .*cannot be read: the server answers 403"
    ):
        fetch(NAME, upstream=None, root=root, mirror=server.url)
    server.answers.pop("/SHA256SUMS")
    assert fetch(NAME, upstream=None, root=root, mirror=server.url).exists()


def test_garbage_in_a_note_is_written_anew(root: Path, mirror: Path) -> None:
    path = fetch(NAME, upstream=None, root=root, mirror=mirror)
    note = path.with_name(f"{path.name}.sha256")
    good = note.read_text()
    note.write_bytes(b"\xff\x00garbage")
    assert fetch(NAME, upstream=None, root=root) == path
    assert note.read_text() == good
