# A build that takes a third of the time, for a first look (preset "demo"): the headers of the standard library
# are compiled once, and only what takes a token's time, kernels and sampling, is fully optimized. No bit of any result
# depends on it.
#   forerun_compile_quickly(<target>)   after its sources have their options

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
  if(NOT FORERUN_QUICK)
    return()
  endif()
  # Kernels are compiled for several instruction sets, which one precompiled header cannot serve.
  if(CMAKE_CURRENT_SOURCE_DIR MATCHES "/src/(kernels|sampling)")
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-O3>")
    forerun_leave_unoptimized(${target})
  else()
    target_precompile_headers(${target} REUSE_FROM forerun_standard_headers)
    # The precompiled headers have it, so programs need it too.
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-fPIC>")
    # ccache needs to see the precompiled header in what g++ preprocesses.
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>")
  endif()
endfunction()
