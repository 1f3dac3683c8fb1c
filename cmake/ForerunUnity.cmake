# Presets that are seldom built and then whole (sanitizers, the demo) compile a library's sources twelve at a time:
# most of a source's time goes to the headers that it shares with its neighbours. The optimized build compiles each
# alone, which shows an include that is missing.
#   forerun_compile_together(<target>)   after its sources are known
#   forerun_compile_in_units(<target>)   in any preset

function(forerun_compile_together target)
  if(FORERUN_UNITY)
    forerun_compile_in_units(${target})
  endif()
endfunction()

function(forerun_compile_in_units target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
  # To g++ each source of a unit is a header, whose private types others might see.
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>")
endfunction()
