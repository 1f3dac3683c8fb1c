#   forerun_fuzz(<name> SOURCES ... [DEPS ...] [PRIVATE_DEPS ...])
# builds a libFuzzer executable with the address and undefined-behaviour sanitizers when
# FORERUN_FUZZ is on and the compiler is clang; otherwise nothing.
#
# Each fuzz target brings the parsers under test as sources: a library built without coverage
# instrumentation would leave libFuzzer blind. What DEPS link is not instrumented.

option(FORERUN_FUZZ "Build the fuzz targets (needs clang)" OFF)
if(FORERUN_FUZZ AND NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  message(STATUS "FORERUN_FUZZ: no fuzz targets, since ${CMAKE_CXX_COMPILER_ID} has no libFuzzer; "
                 "configure with -DCMAKE_CXX_COMPILER=clang++")
endif()

function(forerun_fuzz name)
  if(NOT FORERUN_FUZZ OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  list(TRANSFORM ARG_DEPS PREPEND forerun_)
  target_link_libraries(${name} PRIVATE forerun_flags ${ARG_DEPS} ${ARG_PRIVATE_DEPS})
  set(sanitizers "-fsanitize=fuzzer,address,undefined")
  target_compile_options(${name} PRIVATE ${sanitizers} -fno-omit-frame-pointer
                         -fno-sanitize-recover=all -g1)
  target_link_options(${name} PRIVATE ${sanitizers})
endfunction()
