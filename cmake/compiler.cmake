# SPDX-License-Identifier: Apache-2.0
# Language level, warnings and sanitizers for every target of ours.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

find_program(ISTHMUS_CCACHE ccache)
if(ISTHMUS_CCACHE)
  # Paths relative to the source folder: a second clone finds what the first one compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=true
                                  ${ISTHMUS_CCACHE})
endif()

add_library(isthmus_options INTERFACE)
target_include_directories(isthmus_options INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_compile_definitions(isthmus_options INTERFACE ISTHMUS_VERSION="${PROJECT_VERSION}")
# No contraction: a multiply-add is fused only where the source says so, so that a row's bits do not
# depend on which function the optimizer inlined it into.
target_compile_options(isthmus_options INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Werror -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(isthmus_options INTERFACE -Wthread-safety)
endif()
if(ISTHMUS_SANITIZE)
  target_compile_options(isthmus_options INTERFACE -fsanitize=${ISTHMUS_SANITIZE} -fno-omit-frame-pointer
                                                   -fno-sanitize-recover=all)
  target_link_options(isthmus_options INTERFACE -fsanitize=${ISTHMUS_SANITIZE})
  if(ISTHMUS_SANITIZE MATCHES "thread")
    # TSan knows no stand-alone fences; Asio's order comes from its mutexes without them.
    target_compile_definitions(isthmus_options INTERFACE BOOST_ASIO_DISABLE_FENCED_BLOCK=1)
  endif()
endif()
if(ISTHMUS_FUZZ)
  target_compile_options(isthmus_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
