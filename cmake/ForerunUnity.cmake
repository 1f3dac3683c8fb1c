# Presets that are seldom built and then whole (sanitizers, the demo) compile a library's sources twelve at a time:
# most of a source's time goes to the headers that it shares with its neighbours. The optimized build compiles each
# alone, which shows an include that is missing.
#   forerun_compile_together(<target> [BATCH n])
#   forerun_compile_in_units(<target> [BATCH n])   in any preset
#       BATCH: sources in a unit; 0: all
# CMake's own UNITY_BUILD includes sources by absolute paths, so that ccache serves only clones at the same path;
# these units include them relative to src/, which is among the include directories.

function(forerun_compile_together target)
  if(FORERUN_UNITY)
    forerun_compile_in_units(${target} ${ARGN})
  endif()
endfunction()

function(forerun_compile_in_units target)
  cmake_parse_arguments(ARG "" "BATCH" "" ${ARGN})
  if(NOT DEFINED ARG_BATCH)
    set(ARG_BATCH 12)
  endif()
  # To g++ each source of a unit is a header, whose private types others might see.
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>")
  # At the end of the folder all sources of the target and their properties are known.
  cmake_language(EVAL CODE "cmake_language(DEFER CALL forerun_write_units ${target} ${ARG_BATCH})")
endfunction()

# Replaces sources of a target by units, each of <batch> sources; those with options of their own and those that the
# build writes stay.
function(forerun_write_units target batch)
  get_target_property(sources ${target} SOURCES)
  set(others "")
  set(units "")
  set(unit "")
  set(in_unit 0)
  foreach(source IN LISTS sources)
    get_property(options SOURCE "${source}" PROPERTY COMPILE_OPTIONS SET)
    get_filename_component(path "${source}" ABSOLUTE)
    cmake_path(IS_PREFIX CMAKE_BINARY_DIR "${path}" written)
    if(NOT source MATCHES "\\.cc$" OR options OR written)
      list(APPEND others "${source}")
      continue()
    endif()
    file(RELATIVE_PATH path "${PROJECT_SOURCE_DIR}/src" "${path}")
    string(APPEND unit "#include \"${path}\"\n")
    math(EXPR in_unit "${in_unit} + 1")
    if(in_unit EQUAL batch)
      forerun_write_unit(units ${target} "${unit}")
      set(unit "")
      set(in_unit 0)
    endif()
  endforeach()
  if(unit)
    forerun_write_unit(units ${target} "${unit}")
  endif()
  set_property(TARGET ${target} PROPERTY SOURCES ${others} ${units})
endfunction()

# Writes a unit, unless it stands there already, and appends its path to <var>.
function(forerun_write_unit var target text)
  list(LENGTH ${var} index)
  set(path "${CMAKE_CURRENT_BINARY_DIR}/units/${target}_${index}.cc")
  file(CONFIGURE OUTPUT "${path}" CONTENT "${text}" @ONLY)
  set(${var} ${${var}} "${path}" PARENT_SCOPE)
endfunction()
