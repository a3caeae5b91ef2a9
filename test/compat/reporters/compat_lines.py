"""A pytest plugin: one line for each test, see parseLines."""

import json
import os

# Taken before pytest captures what tests print.
_lines = os.fdopen(os.dup(1), "w")


def pytest_runtest_logreport(report):
    if report.when != "call" and report.outcome == "passed":
        return
    result = {"passed": "pass", "failed": "fail", "skipped": "skip"}[report.outcome]
    if hasattr(report, "wasxfail"):
        result = "x" + result
    test = report.nodeid if report.when == "call" else f"{report.nodeid} ({report.when})"
    print("\ncompat " + json.dumps({"test": test, "result": result}), file=_lines, flush=True)
