"""Runs scanners beside each other and writes what they say as a tar stream.

The plan is argv[1], a JSON document; see driver.go. Nothing here is trusted by
who reads the stream: this program and the scanners are the same user.
"""
import io
import itertools
import json
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time

PLAN = json.loads(sys.argv[1])
ROOT, TMP, MOST = PLAN["root"], PLAN["tmp"], PLAN["most"]
SKIP = {".git", "node_modules", ".venv", "venv"}


def look(markers):
    """The endings of all files, and the directories of each marker file."""
    endings, found, todo = set(), {m: [] for m in markers}, [(ROOT, True)]
    while todo:
        path, module = todo.pop()
        try:
            entries = sorted(os.scandir(path), key=lambda e: e.name)
        except OSError:
            continue
        for e in entries:
            if e.is_dir(follow_symlinks=False):
                if e.name not in SKIP:
                    todo.append((e.path, module and e.name not in ("vendor", "testdata") and e.name[0] not in "._"))
                continue
            endings.add(os.path.splitext(e.name)[1])
            if module and e.name in found:
                found[e.name].append(path)
    return endings, {m: sorted(dirs) for m, dirs in found.items()}


def run(n, tool, where):
    """One scanner in one directory: its times, and why it ended."""
    env = dict(os.environ, **tool.get("env", {}))
    begin, cut = time.monotonic(), False
    with open(f"{TMP}/{n}.out", "wb") as out, open(f"{TMP}/{n}.err", "wb") as err:
        try:
            p = subprocess.Popen(tool["argv"], cwd=where, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
        except OSError as e:
            return {"tool": tool["name"], "dir": where, "failed": str(e)}
        expired = []
        clock = threading.Timer(PLAN["timeout"], lambda: (expired.append(1), os.killpg(p.pid, signal.SIGKILL)))
        clock.start()
        _, status, used = os.wait4(p.pid, 0)
        clock.cancel()
    code = os.waitstatus_to_exitcode(status)
    return {
        "tool": tool["name"], "dir": where, "exit": code, "timed_out": bool(expired), "files": n,
        "wall": time.monotonic() - begin, "cpu": used.ru_utime + used.ru_stime, "rss": used.ru_maxrss,
    }


def work(jobs, results):
    """One scanner in all its directories, one after the other."""
    results.extend(run(*job) for job in jobs)


def write(stream, results, skipped):
    tar = tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT)

    def add(name, data):
        info = tarfile.TarInfo(name)
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))

    add("runs.json", json.dumps({"runs": results, "skipped": skipped}).encode())
    for r in results:
        for kind, most in (("out", MOST + 1), ("err", 65536)) if "files" in r else ():
            with open(f"{TMP}/{r['files']}.{kind}", "rb") as f:
                if kind == "err":
                    f.seek(max(0, os.path.getsize(f.name) - most))
                add(f"{r['files']}.{kind}", f.read(most))
    tar.close()


def main():
    os.makedirs(f"{TMP}/home", exist_ok=True)
    os.environ["HOME"] = f"{TMP}/home"
    for path, text in PLAN["files"].items():
        with open(path, "w") as f:
            f.write(text)
    ignore = f"{ROOT}/.gitleaksignore"
    if PLAN.get("aside") and os.path.lexists(ignore):
        os.rename(ignore, f"{ROOT}/{PLAN['aside']}")
    tools = PLAN["tools"]
    endings, dirs = look([t["marker"] for t in tools if t.get("marker")])
    numbers, results, skipped, threads = itertools.count(), [], [], []
    for t in tools:
        if t.get("only") and not endings & set(t["only"]):
            skipped.append(t["name"])
            continue
        jobs = [(next(numbers), t, where) for where in dirs.get(t.get("marker"), []) or [ROOT]]
        threads.append(threading.Thread(target=work, args=(jobs, results)))
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if PLAN["to"] == "-":
        write(sys.stdout.buffer, results, skipped)
        sys.stdout.buffer.flush()
        return
    with open(PLAN["to"], "wb") as f:
        write(f, results, skipped)


main()
