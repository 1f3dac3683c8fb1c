# A build that takes a third of the time, for a first look (preset "demo"): the headers of the standard library
# are compiled once, and a library's sources are compiled twelve at a time. Only what takes a token's time, kernels and
# sampling, is fully optimized, source by source. No bit of any result depends on it.
#   forerun_compile_quickly(<target> [ALONE])   after its sources have their options; ALONE: one source at a time,
#                                               for sources whose private names collide

if(FORERUN_QUICK)
  set(CMAKE_CXX_FLAGS_RELEASE "-O1 -DNDEBUG")
  file(WRITE "${CMAKE_BINARY_DIR}/standard_headers.cc" "")
  add_library(forerun_standard_headers OBJECT EXCLUDE_FROM_ALL "${CMAKE_BINARY_DIR}/standard_headers.cc")
  target_link_libraries(forerun_standard_headers PRIVATE forerun_flags)
  target_precompile_headers(forerun_standard_headers PRIVATE
    <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable> <cstdint> <filesystem> <functional>
    <iostream> <map> <memory> <mutex> <optional> <span> <sstream> <string> <string_view> <thread>
    <unordered_map> <utility> <variant> <vector>)
endif()

# Kernels for instruction sets that this processor lacks will not run here: they are compiled with -O0.
function(forerun_leave_unoptimized target)
  if(NOT EXISTS /proc/cpuinfo)
    return()
  endif()
  file(STRINGS /proc/cpuinfo cpu_flags REGEX "^flags" LIMIT_COUNT 1)
  get_target_property(sources ${target} SOURCES)
  set(flags avx512f avx512_bf16 amx_tile)
  set(files avx512 avx512_bf16 amx)
  foreach(flag file IN ZIP_LISTS flags files)
    if(cpu_flags MATCHES " ${flag}")
      continue()
    endif()
    foreach(source IN LISTS sources)
      if(source MATCHES "${file}[a-z_]*\\.cc$")
        set_property(SOURCE "${source}" APPEND PROPERTY COMPILE_OPTIONS -O0)
      endif()
    endforeach()
  endforeach()
endfunction()

function(forerun_compile_quickly target)
  cmake_parse_arguments(ARG "ALONE" "" "" ${ARGN})
  if(NOT FORERUN_QUICK)
    return()
  endif()
  # Kernels are compiled for several instruction sets, which one precompiled header cannot serve.
  if(CMAKE_CURRENT_SOURCE_DIR MATCHES "/src/(kernels|sampling)")
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-O3>")
    forerun_leave_unoptimized(${target})
  else()
    cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE folder)
    target_precompile_headers(${target} REUSE_FROM forerun_standard_headers)
    if(NOT ARG_ALONE AND NOT folder MATCHES "^(src/server|src/supervisor|bench)")
      set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
    endif()
    # The precompiled headers have it, so programs need it too.
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-fPIC>")
  endif()
endfunction()
