# SPDX-License-Identifier: Apache-2.0
"""What names a model file in results and in the cache folder."""
import hashlib


def sha256_file(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()
