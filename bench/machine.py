# SPDX-License-Identifier: Apache-2.0
"""What the results say of the machine they come from."""
import os
import pathlib
import platform
import re


def machine():
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return {"cpu": cpu[1] if cpu else platform.processor(), "cores": os.cpu_count(), "system": platform.platform()}
