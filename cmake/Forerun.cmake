# Compiler settings and the helpers that every folder uses:
#   forerun_library(<name> SOURCES ... [DEPS ...] [PRIVATE_DEPS ...])
#   forerun_bench(<name> SOURCES ... [DEPS ...])
#   forerun_cuda_bench(<name> SOURCES ... [DEPS ...])

include(GNUInstallDirs)
include(ForerunFuzz)
find_package(Threads REQUIRED)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # ccache asks for the sloppiness where a header is precompiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}" CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros "${CCACHE_PROGRAM}")
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${CMAKE_CXX_COMPILER_LAUNCHER}")
endif()

add_library(forerun_flags INTERFACE)
# Contraction of a*b+c changes bits between instruction sets and optimization levels: every fused
# multiply-add in a kernel is spelled out.
target_compile_options(forerun_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion;-Wno-sign-conversion;-ffp-contract=off>")
# g++ 12 sees overlapping copies where a literal is joined to a temporary string (its bug 105651).
target_compile_options(forerun_flags INTERFACE
  "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>")
# Clang 22 warns of Google Benchmark's __COUNTER__ and, within libstdc++ 12's own std::stable_sort, of
# what that calls. g++ and older clang look for deprecated functions in our own code.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 22)
  target_compile_options(forerun_flags INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:-Wno-c2y-extensions;-Wno-deprecated-declarations>")
endif()
if(FORERUN_WERROR)
  target_compile_options(forerun_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Werror>")
endif()
if(FORERUN_SANITIZE)
  target_compile_options(forerun_flags INTERFACE
    "-fsanitize=${FORERUN_SANITIZE}" -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(forerun_flags INTERFACE "-fsanitize=${FORERUN_SANITIZE}")
  if(FORERUN_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # g++ 12 then warns of variants and optionals that are not read before they are written.
    target_compile_options(forerun_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>")
  endif()
endif()
target_include_directories(forerun_flags INTERFACE
  "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include")
if(FORERUN_QUICK)
  # Warnings are for the optimized build.
  target_compile_options(forerun_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-w>")
endif()
target_link_libraries(forerun_flags INTERFACE Threads::Threads)
target_compile_definitions(forerun_flags INTERFACE FORERUN_VERSION="${PROJECT_VERSION}")
# Tests and benches run at the repository's root, read its own data and, where it is there,
# ../shared/data beside it. Relative, so that a compiler cache serves every clone.
target_compile_definitions(forerun_flags INTERFACE FORERUN_SOURCE_DIR=".")

include(ForerunIsa)
include(ForerunUnity)
include(ForerunQuick)
include(ForerunTests)

function(forerun_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(forerun_${name} STATIC ${ARG_SOURCES})
  list(TRANSFORM ARG_DEPS PREPEND forerun_)
  target_link_libraries(forerun_${name} PUBLIC forerun_flags ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
  forerun_compile_together(forerun_${name})
  forerun_compile_quickly(forerun_${name})
  forerun_watch_coverage(forerun_${name})
endfunction()

function(forerun_bench name)
  if(NOT FORERUN_BENCHES)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  find_package(benchmark REQUIRED)
  add_executable(${name} ${ARG_SOURCES})
  list(TRANSFORM ARG_DEPS PREPEND forerun_)
  target_link_libraries(${name} PRIVATE forerun_flags ${ARG_DEPS} benchmark::benchmark)
endfunction()

# A bench that times by the device's own clock: a program of its own, without Google Benchmark.
function(forerun_cuda_bench name)
  if(NOT FORERUN_BENCHES)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  list(TRANSFORM ARG_DEPS PREPEND forerun_)
  target_link_libraries(${name} PRIVATE forerun_flags ${ARG_DEPS})
  add_dependencies(cuda_code ${name})
endfunction()
