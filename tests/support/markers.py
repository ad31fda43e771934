"""Markers of tests: by folder, and one case of each kind in `make test`.

A test over a large grid carries `one_of_each`. Its first case of each kind runs in `make test`; the others are
`slow`. The kind is the value of the named parameters, or the class of a claim if the value is a catalogue's case.
"""

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]
FOLDER_MARKERS = {
    "laws": "law",
    "crash": "crash",
    "neighbour": "neighbour",
    "browser": "browser",
    "audit": "statistical",
    "cli": "integration",
}
# modules that take more than about a second in all: `make quick` leaves them out
LONG_MODULES = {
    "": ("integration", "examples markers"),
    "adaptive": (
        "statistical",
        "budget_loss budget_windows cascading_buffers driven_intervals grouper hierarchical_privacy "
        "hierarchical_releases node_estimates pegasus pegasus_blocks pruning sparse_choice sparse_counter "
        "sparse_privacy w_event_mechanisms",
    ),
    "config": ("integration", "packages pipeline_any_bytes pipeline_refusals"),
    "continual": ("statistical", "choice exponential_decay open_ticks recursion square_root window_sum"),
    "engines": (
        "integration",
        "discovered_keys event_times exact_tallies hostile_lines line_buffers live_blocks live_memory "
        "nothing_leaves parquet_alike parquet_rows stops user_ranking",
    ),
    "localdp": (
        "statistical",
        "collisions count_mean_sketch device_file device_power every_oracle hadamard_sketch heavy_hitters "
        "interval_ends local_choice local_hashing",
    ),
    "mapreduce": ("integration", "sample_aggregate sandbox"),
    "noise": ("statistical", "bounds entropy ephemeral grid sampler sums"),
    "panprivate": ("statistical", "continual_density ends_of_numbers table_estimates table_privacy taken_cells"),
    "postprocess": ("statistical", "add_up consistency monitor non_negative"),
    "privacy": ("statistical", "conversions ledger losses slack splits worst_case"),
    "runtime": (
        "integration",
        "adaptive_pipelines adhoc_capacity adhoc_cpu adhoc_endings adhoc_releases alerts announced_intrusions answers "
        "clocks discovered_groups discovered_ledger draft editing forced_ends ledger_log pinned_plans "
        "editing_surroundings freed_memory hashed_columns hostile_reports http_source live_intrusion_leftovers "
        "live_ticks local_releases lost_intrusions nothing_raw open_ticks_charged pan_private_copies "
        "pan_private_endings pan_private_leftovers pan_private_memory pan_private_runs pan_private_wiped "
        "pipeline_api planning predicted_errors random_queries rollback shared_sinks sinks_after_rollback "
        "split_budgets standard_input_runs wide_sinks wrong_names",
    ),
    "server": (
        "integration",
        "arrow_sizes bodies downloads ended_ticks event_bodies event_buffer folded_log intruder_rehearsal ledger_pages "
        "live live_intrusions openapi releases runner security_http vector_reports",
    ),
    "sketches": ("statistical", "comparison count_min count_sketch flip_merge misra_gries stable"),
    "robust": ("statistical", "games"),
    "sinks": ("integration", "line_files parquet_parts"),
    "sources": ("integration", "compressed lines"),
    "sql": ("integration", "intervals sql_any_text sql_attacks sql_expressions sql_hostile_values sql_meaning"),
    "statistics": (
        "statistical",
        "columns contributions discovery distinct extremes local_frequency noises quantile range_count ratio "
        "spread summary top_k totals value_tree",
    ),
    "store": ("integration", "seized_store store_damage"),
}
MODULE_MARKERS = {
    TESTS / folder / f"test_{name}.py": marker
    for folder, (marker, names) in LONG_MODULES.items()
    for name in names.split()
} | {TESTS.parent / "docs" / f"{name}.md": "statistical" for name in ("audit", "postprocess", "statistics", "privacy")}
LONGEST_MODULE = TESTS / "runtime" / "test_soak.py"
LONG_FIRST = ("crash", "browser", "neighbour", "statistical", "integration", "law", None)
MARKERS = {"law", "crash", "neighbour", "browser", "statistical", "cluster", "integration", "slow"}
NEEDED_PARTS = {
    "chromium": "tests/browser needs a Chromium, found none: install the package chromium",
    "bwrap": "tests/mapreduce needs bubblewrap, found none: install the package bubblewrap",
}
COLLECTED_TESTS: dict[str, bool] = {}  # of this process: each test, and whether it is slow


@cache
def find_marker(path: Path) -> str | None:
    """Return the marker of a folder of tests, or of a module of tests."""
    folder = path if path.is_dir() else path.parent
    return FOLDER_MARKERS.get(folder.name if folder.parent == TESTS else "") or MODULE_MARKERS.get(path)


def rank_module(path: Path) -> int:
    """Return the place of a module in a run: long ones first, so that at the end no worker waits for another."""
    return -1 if path == LONGEST_MODULE else LONG_FIRST.index(find_marker(path))


def find_missing_parts(which: Callable[[str], str | None]) -> list[str]:
    """Return the missing parts of the machine, each with the package to install."""
    return [message for program, message in NEEDED_PARTS.items() if not which(program)]


def mark_repetitions(items: Iterable[pytest.Item]) -> None:
    """Mark all but the first case of each kind as slow, in tests that carry `one_of_each`."""
    found: set[Any] = set()
    for item in items:
        marker = item.get_closest_marker("one_of_each")
        if marker is None or not isinstance(item, pytest.Function):
            continue
        kind = (item.function, *(describe_kind(item.callspec.params[name]) for name in marker.args))
        if kind in found:
            item.add_marker("slow")
        found.add(kind)


def describe_kind(value: Any) -> str:
    """Return the class of a catalogue's case, else the value as text, without settings in parentheses."""
    cls = getattr(value, "cls", None)
    return cls.__name__ if isinstance(cls, type) else str(value).partition("(")[0]
