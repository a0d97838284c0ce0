# SPDX-License-Identifier: Apache-2.0
# How scripts/venv has llama.cpp compiled (read after each project() of that build): for this machine's CPU, only the
# library, and its some two hundred small model files in a few compiler calls, which takes a third of the time.
if(PROJECT_NAME STREQUAL "llama_cpp")
  set(GGML_NATIVE ON)
  set(LLAVA_BUILD OFF)
  set(LLAMA_BUILD_COMMON OFF)
  set(CMAKE_UNITY_BUILD ON)
  set(CMAKE_UNITY_BUILD_BATCH_SIZE 24)
elseif(PROJECT_NAME STREQUAL "ggml")  # its files repeat each other's names
  set(CMAKE_UNITY_BUILD OFF)
endif()
