#   forerun_fuzz(<name> SOURCES ... [DEPS ...] [PRIVATE_DEPS ...])
# builds a libFuzzer executable when FORERUN_FUZZ is on and the compiler is clang; otherwise nothing.
#   forerun_watch_coverage(<target>)   lets libFuzzer see into a library that reads what others wrote
# Kernels and what runs them are compiled without it, in half the time. The sanitizers are those of FORERUN_SANITIZE
# (preset clang-asan has both).

option(FORERUN_FUZZ "Build the fuzz targets (needs clang)" OFF)
if(FORERUN_FUZZ AND NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  message(STATUS "FORERUN_FUZZ: no fuzz targets, since ${CMAKE_CXX_COMPILER_ID} has no libFuzzer; "
                 "configure with -DCMAKE_CXX_COMPILER=clang++")
endif()
add_custom_target(fuzzers)

function(forerun_watch_coverage target)
  if(FORERUN_FUZZ AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND
     CMAKE_CURRENT_SOURCE_DIR MATCHES "/src/(base|checkpoint|exec|grammar|hosts|json|planner|server|supervisor|text|wire)")
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link>")
  endif()
endfunction()

function(forerun_fuzz name)
  if(NOT FORERUN_FUZZ OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  list(TRANSFORM ARG_DEPS PREPEND forerun_)
  target_link_libraries(${name} PRIVATE forerun_flags ${ARG_DEPS} ${ARG_PRIVATE_DEPS})
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer-no-link)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  add_dependencies(fuzzers ${name})
endfunction()
