#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""compare.py OURS NVMET: files of linux_compare.sh, field by field. What differs and is not listed
below is a failure; what is listed and does not differ is not, since kernels do."""
import json
import re
import sys

# Pattern of FILE:FIELD -> why nvme_target differs.
MEANT = {
    r"id_ctrl:\.(sn|mn|fr|subnqn|ver)|ns_descs:.*uuid|ana_log:.*NVMe device": "names, versions",
    r"id_ctrl:\.mdts": "nvmet has no limit, memory of ours is bounded",
    r"id_ctrl:\.(elpe|kas|anagrpmax|nanagrpid|maxcmd|nn|mnan)": "sizes of tables, granularity",
    r"id_ctrl:\.lpa": "nvmet has a SMART log of each namespace",
    r"id_ctrl:\.ofcs": "ours has Disconnect",
    r"id_ctrl:\.(wctemp|cctemp|psds.*)|smart_log:\.(temperature|avail_spare|spare_thresh)":
        "ours reports a device in order, nvmet nothing",
    r"id_ctrl:\.oncs|id_ns:\.rescap|status:get-feature-13[01]|status:get-log-128":
        "ours has reservations, Compare and Verify",
    r"id_ctrl:\.vwc": "ours has no Flush of all namespaces",
    r"id_ctrl:\.nwpc": "ours has no write protection by hosts",
    r"id_ctrl:\.sgls": "both take transport SGLs, nvmet does not report it",
    r"id_ctrl:\.ioccsz": "8 KiB of data in a capsule, nvmet 16",
    r"id_ns:\.(nsfeat|np[wd][ga]|nows)": "nvmet reports the block device's sizes",
    r"smart_log:\.(data_units|host_(read|write)_commands).*": "ours does not count there",
    r"fw_log:.*": "ours has a firmware slot, nvmet's is empty",
    r"status:get-feature-[1245]|status:set-temperature|status:get-feature-22|status:get-log-5":
        "mandatory in NVMe 2.0 or useful, nvmet does not have them",
    r"status:set-cache": "Feature Not Changeable, of nvmet Invalid Field",
    r"status:get-log-(6|112|238)": "Invalid Log Page, of nvmet Invalid Field",
    r"status:--cdw10=(19|28) -n 1 -r -l 4096,6": "controller list, command sets: nvmet has neither",
    r"status:--cdw10=0 -n 99 .*": "an id above NN, which is larger at nvmet",
    r"status:-n 1 .*--cdw10=(0xfffffff0|26214[04]).*": "LBA Out of Range, of nvmet Internal Error",
    r"status:-n 1,0x7f": "Property Set on an I/O queue: Command Sequence Error",
}


def fields(value, name):
    """Leaves of JSON as (name, text)."""
    if isinstance(value, dict):
        for k, v in value.items():
            yield from fields(v, f"{name}.{k}")
    elif isinstance(value, list):
        for i, v in enumerate(value):
            yield from fields(v, f"{name}.{i}")
    else:
        yield name, str(value).strip()


def without_more(status):
    """Ours keeps errors of I/O queues out of the error log, so that they have no More bit."""
    return hex(int(status[1:-1], 16) & ~0x2000) if status.startswith("(0x") else status


def read(prefix, kind):
    with open(f"{prefix}.{kind}", encoding="utf-8", errors="replace") as f:
        text = f.read()
    if kind == "status":
        return {k: without_more(v) for k, v in (s.rsplit(" ", 1) for s in text.splitlines())}
    try:
        return dict(fields(json.loads(text), ""))
    except ValueError:
        return {"text": text.strip()}


def main():
    ours, nvmet = sys.argv[1:]
    same = meant = 0
    wrong = []
    for kind in ("id_ctrl id_ns ns_descs list_ns smart_log effects_log ana_log fw_log "
                 "status").split():
        a, b = read(ours, kind), read(nvmet, kind)
        for k in dict.fromkeys([*a, *b]):
            if a.get(k) == b.get(k):
                same += 1
            elif any(re.fullmatch(p, f"{kind}:{k}") for p in MEANT):
                meant += 1
            else:
                wrong.append(f"{kind}:{k}: {a.get(k)}, nvmet {b.get(k)}")
    print(f"{same} fields are those of nvmet, {meant} differ on purpose, {len(wrong)} otherwise")
    for w in wrong:
        print(f"  {w}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
