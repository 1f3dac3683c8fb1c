# A build that takes a third of the time, for a first look (preset "demo"): the headers of the standard library
# are compiled once, only what takes a token's time, kernels and sampling, is fully optimized, and kernels are compiled
# for this processor alone (ForerunIsa.cmake); those of grouped formats in small shapes, which read prompts slower.
# No bit of any result depends on it.
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

function(forerun_compile_quickly target)
  if(NOT FORERUN_QUICK)
    return()
  endif()
  if(CMAKE_CURRENT_SOURCE_DIR MATCHES "/src/(kernels|sampling)")
    # g++ 12 stops with an internal error where it reads headers that were precompiled with another -O.
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-O3>")
    return()
  endif()
  target_precompile_headers(${target} REUSE_FROM forerun_standard_headers)
  # The precompiled headers have it, so programs need it too.
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-fPIC>")
  # ccache needs to see the precompiled header in what g++ preprocesses.
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>")
endfunction()
