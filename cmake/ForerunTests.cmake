# Test programs, for GoogleTest:
#   forerun_test(<name> SOURCES ... [DEPS ...] [PRIVATE_DEPS ...] [ALONE] [ARGS ...] [SHARDS n]
#                [LABELS fast|slow|long|long_sanitized|threads|threads_nightly|gpu|cuda_host|multi_host ...])
#       ALONE: a target named <name>, for a test that replaces operator new or that more is said of
# With FORERUN_TESTS_TOGETHER, which scripts/test sets, tests of one folder with the same labels are one program, whose
# sources are compiled twelve at a time, except tests of CUDA code; ctest still runs each by its name, by the suites that its sources hold.

include(CTest)
option(FORERUN_TESTS_TOGETHER "Compile a folder's tests together: a third of the time for all of them" ${FORERUN_UNITY})

# What `ctest -L fast -LE long_sanitized` runs, and `ctest -L '^threads$'` (tests that start threads); all_*: also those
# labelled long_sanitized, and threads_nightly (tests whose threads only share out a kernel's work).
foreach(label fast threads)
  add_custom_target(${label}_tests)
  add_custom_target(all_${label}_tests)
  add_dependencies(all_${label}_tests ${label}_tests)
endforeach()
# All code that only a CUDA compiler sees: what a machine without a GPU can still check.
# `ctest -L cuda_host` runs those of its tests that need no GPU.
add_custom_target(cuda_code)

function(forerun_test name)
  if(NOT FORERUN_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "ALONE" "SHARDS" "SOURCES;DEPS;PRIVATE_DEPS;LABELS;ARGS" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS fast)
  endif()
  set(program ${name})
  if(FORERUN_TESTS_TOGETHER AND NOT ARG_ALONE AND NOT ARG_ARGS AND NOT ARG_SHARDS AND NOT gpu IN_LIST ARG_LABELS
     AND NOT cuda_host IN_LIST ARG_LABELS)
    forerun_name_of_tests_together(program ${ARG_LABELS})
    forerun_suites(ARG_ARGS ${ARG_SOURCES})
  endif()
  if(NOT TARGET ${program})
    forerun_test_program(${program} ${ARG_LABELS})
  endif()
  get_target_property(sources ${program} SOURCES)
  if(sources)
    list(REMOVE_ITEM ARG_SOURCES ${sources})
  endif()
  target_sources(${program} PRIVATE ${ARG_SOURCES})
  list(TRANSFORM ARG_DEPS PREPEND forerun_)
  target_link_libraries(${program} PRIVATE ${ARG_DEPS} ${ARG_PRIVATE_DEPS})

  set(tests ${name})
  if(ARG_SHARDS)  # parts of the program's tests, so that cores share them
    set(tests "")
    foreach(shard RANGE 1 ${ARG_SHARDS})
      list(APPEND tests ${name}_${shard})
    endforeach()
  endif()
  foreach(test IN LISTS tests)
    add_test(NAME ${test} COMMAND ${program} ${ARG_ARGS} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  endforeach()
  set_tests_properties(${tests} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 900)
  if(gpu IN_LIST ARG_LABELS)
    # Kernels whose blocks wait for each other need the GPU to themselves.
    set_tests_properties(${tests} PROPERTIES RESOURCE_LOCK gpu)
  endif()
  if(ARG_SHARDS)
    foreach(shard RANGE 1 ${ARG_SHARDS})
      math(EXPR index "${shard} - 1")
      set_tests_properties(${name}_${shard} PROPERTIES
                           ENVIRONMENT "GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${index}")
    endforeach()
  endif()
endfunction()

# A program for tests with these labels, without sources yet.
function(forerun_test_program name)  # then labels
  find_package(GTest REQUIRED)
  add_executable(${name})
  target_link_libraries(${name} PRIVATE forerun_flags GTest::gtest GTest::gtest_main)
  # Checks need no speed, what they check is compiled as ever. Kernels' tests compute what they expect.
  set(level -O1)
  if(FORERUN_SANITIZE AND NOT CMAKE_CURRENT_SOURCE_DIR MATCHES "/src/kernels")
    set(level -O0)
  endif()
  target_compile_options(${name} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${level}>")
  if(gpu IN_LIST ARGN OR cuda_host IN_LIST ARGN)
    add_dependencies(cuda_code ${name})
  elseif(FORERUN_TESTS_TOGETHER)
    forerun_compile_in_units(${name})
  endif()
  foreach(label fast threads)
    if(label IN_LIST ARGN)
      if(long_sanitized IN_LIST ARGN)
        add_dependencies(all_${label}_tests ${name})
      else()
        add_dependencies(${label}_tests ${name})
      endif()
    endif()
  endforeach()
  if(threads_nightly IN_LIST ARGN)
    add_dependencies(all_threads_tests ${name})
  endif()
endfunction()

# Sets <var> to the name of the program that this folder's tests with these labels share.
function(forerun_name_of_tests_together var)  # then labels
  file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  list(SORT ARGN)
  string(MAKE_C_IDENTIFIER "${folder}_tests_${ARGN}" name)
  set(${var} ${name} PARENT_SCOPE)
endfunction()

# Sets <var> to the argument that selects the suites of these sources, as they are now: an edit configures anew.
function(forerun_suites var)  # then sources
  set(patterns "")
  foreach(source IN LISTS ARGN)
    get_filename_component(path "${source}" ABSOLUTE)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${path}")
    file(STRINGS "${path}" tests REGEX "^TEST(_F|_P)?\\(")
    foreach(test IN LISTS tests)
      if(NOT test MATCHES "^TEST(_F|_P)?\\(([A-Za-z0-9_]+),")
        message(FATAL_ERROR "forerun_test: ${source}: found ${test}; accepted: the suite's name and a comma on that line")
      endif()
      set(suite "${CMAKE_MATCH_2}")
      list(APPEND patterns "${suite}.*" "*/${suite}.*")
    endforeach()
  endforeach()
  if(NOT patterns)
    message(FATAL_ERROR "forerun_test: found no TEST, TEST_F or TEST_P at the beginning of a line of ${ARGN}")
  endif()
  list(REMOVE_DUPLICATES patterns)
  list(JOIN patterns ":" patterns)
  set(${var} "--gtest_filter=${patterns}" PARENT_SCOPE)
endfunction()
