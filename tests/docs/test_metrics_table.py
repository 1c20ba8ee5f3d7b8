"""The table of metrics in the docs, against what a server exports."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path

from holdfast import Connection
from holdfast.connection import open_store
from holdfast.server.embedded import EmbeddedServer
from holdfast.settings import load

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "monitoring.md"


def test_the_table_has_every_metric_with_its_type(tmp_path: Path) -> None:
    settings = load(tmp_path, {})
    with open_store(settings) as store:
        Connection(store).asset_store(name="orders", declare=True)
        server = EmbeddedServer(store, settings)
        urllib.request.urlopen(f"{server.url}/health").close()
        text = urllib.request.urlopen(f"{server.url}/metrics").read().decode()
        server.close()

    exported = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    created = {name for name in exported if name.endswith("_created")}
    rows = re.findall(r"^\| `(holdfast_\w+)` \| (\w+) \|", PAGE.read_text(), re.MULTILINE)

    assert len(rows) == len(dict(rows))
    assert dict(rows) == {name: exported[name] for name in exported.keys() - created}
