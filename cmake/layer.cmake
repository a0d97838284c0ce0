# SPDX-License-Identifier: Apache-2.0
# One folder under src/ = one static library + one unit-test program + its fuzz targets and microbenchmarks.
# Files are found by name: x.cpp (library), x_test.cpp (tests), x_fuzz.cpp (one fuzz program each),
# x_bench.cpp (one microbenchmark program for the folder).

add_custom_target(unit_tests)  # all unit-test programs, and not the binary

function(isthmus_layer name)
  cmake_parse_arguments(ARG "" "" "LINKS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cpp)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  set(fuzzers ${sources})
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cpp$")
  set(benches ${sources})
  list(FILTER benches INCLUDE REGEX "_bench\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "_(test|fuzz|bench)\\.cpp$")

  set(lib isthmus_${name})
  if(sources)
    add_library(${lib} STATIC ${sources})
    target_link_libraries(${lib} PUBLIC isthmus_options ${ARG_LINKS})
  else()
    add_library(${lib} INTERFACE)
    target_link_libraries(${lib} INTERFACE isthmus_options ${ARG_LINKS})
  endif()

  if(ISTHMUS_TESTS AND tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE ${lib} isthmus_test_data GTest::gtest GTest::gtest_main)
    add_test(NAME ${name} COMMAND ${name}_test)
    add_dependencies(unit_tests ${name}_test)
  endif()
  if(ISTHMUS_FUZZ)
    foreach(fuzzer ${fuzzers})
      get_filename_component(fuzz_name ${fuzzer} NAME_WE)
      add_executable(${fuzz_name} ${fuzzer})
      target_link_libraries(${fuzz_name} PRIVATE ${lib})
      target_link_options(${fuzz_name} PRIVATE -fsanitize=fuzzer)
    endforeach()
  endif()
  if(ISTHMUS_BENCH AND benches)
    add_executable(${name}_bench ${benches})
    target_link_libraries(${name}_bench PRIVATE ${lib} isthmus_test_data benchmark::benchmark benchmark::benchmark_main)
  endif()
endfunction()

# The binary: every .cpp of a folder, except its tests.
function(isthmus_program name folder)
  cmake_parse_arguments(ARG "" "" "LINKS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "_(test|fuzz|bench)\\.cpp$")
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
endfunction()
