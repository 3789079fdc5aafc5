#!/usr/bin/env python3
"""Sums up a `bazel test`: the cases that failed, then "N passed, N failed".

usage: test_summary.py EVENTS STATUS

EVENTS is what --build_event_json_file wrote and STATUS the exit status of Bazel.
Counts test cases. A target that failed without a failed case (it did not build,
crashed, ran too long or leaked) counts as one failure, and so does a STATUS that
nothing else explains. A target that needs a library that is not installed is named
and does not count. Fails unless something passed and nothing failed.
"""

import collections
import json
import sys
import urllib.parse
import urllib.request
import xml.etree.ElementTree


def cases_of(result):
    """Yields (name, verdict) of each case of one run of a test target."""
    uris = {o["name"]: o.get("uri", "") for o in result.get("testActionOutput", [])}
    path = urllib.request.url2pathname(
        urllib.parse.urlparse(uris.get("test.xml", "")).path)
    try:
        tree = xml.etree.ElementTree.parse(path)
    except (OSError, xml.etree.ElementTree.ParseError):
        return  # The status of the target says what there is to say.
    for case in tree.iter("testcase"):
        name = ".".join(filter(None, [case.get("classname"), case.get("name")]))
        if case.find("failure") is not None or case.find("error") is not None:
            yield name, "failed"
        elif case.get("status") == "run" and case.get("result") != "skipped":
            yield name, "passed"


def main(events_path, status):
    passed = 0
    failures = collections.defaultdict(list)  # By target, in order.
    failed_targets = {}
    with open(events_path, encoding="utf-8") as events:
        for event in map(json.loads, events):
            kind, about = next(iter(event["id"].items()))
            if event.get("aborted", {}).get("reason") == "SKIPPED":
                print(f"LEFT OUT {about['label']} (a library that it needs is not "
                      "installed)")
            elif kind == "targetCompleted":
                if not event.get("completed", {}).get("success"):
                    failed_targets[about["label"]] = "failed to build"
            elif kind == "testSummary":
                verdict = event.get("testSummary", {}).get("overallStatus", "aborted")
                if verdict not in ("PASSED", "FLAKY"):
                    failed_targets.setdefault(about["label"], verdict.lower())
            elif kind == "testResult" and "testResult" in event:
                result = event["testResult"]
                cases = list(cases_of(result))
                passed += sum(verdict == "passed" for _, verdict in cases)
                if result.get("status") not in ("PASSED", "FLAKY"):
                    failures[about["label"]] += [
                        name for name, verdict in cases if verdict == "failed"]

    for label, reason in failed_targets.items():
        if not failures[label]:
            failures[label].append(f"({reason})")
    if status != 0 and not any(failures.values()) and passed:
        failures["bazel test"].append(f"(exit status {status})")

    for label, names in failures.items():
        for name in names:
            print(f"FAILED {label} {name}")
    failed = sum(map(len, failures.values()))
    print(f"{passed} passed, {failed} failed")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
