# SPDX-License-Identifier: Apache-2.0
# Every outside library, found once. scripts/install-deps installs them.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Boost 1.81 REQUIRED)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)

add_library(isthmus_json INTERFACE)
target_link_libraries(isthmus_json INTERFACE nlohmann_json::nlohmann_json)

# What the kernels link: everything in a full build, nothing in a serial one.
add_library(isthmus_compute INTERFACE)
if(ISTHMUS_COMPUTE STREQUAL "full")
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  pkg_check_modules(hwy REQUIRED IMPORTED_TARGET libhwy)
  target_link_libraries(isthmus_compute INTERFACE OpenMP::OpenMP_CXX PkgConfig::hwy)
  # Only the AVX-512 rung with BF16 calls oneDNN (kernels/gemm.cpp).
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    # Not find_package(dnnl): the packaged config insists on OpenCL headers that only its GPU engine needs.
    find_library(DNNL_LIBRARY dnnl REQUIRED)
    find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp REQUIRED)
    target_link_libraries(isthmus_compute INTERFACE ${DNNL_LIBRARY})
    target_compile_definitions(isthmus_compute INTERFACE ISTHMUS_ONEDNN=1)
  endif()
else()
  target_compile_definitions(isthmus_compute INTERFACE ISTHMUS_COMPUTE_SERIAL=1)
endif()

if(ISTHMUS_TESTS)
  find_package(GTest REQUIRED)
endif()
if(ISTHMUS_BENCH)
  find_package(benchmark REQUIRED)
endif()
