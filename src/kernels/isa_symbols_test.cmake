# cmake -DNM=... -DLIBRARY=... -DEXPECTED=5 -P isa_symbols_test.cmake
#
# Fails if an object compiled for one instruction set defines a weak symbol: the linker keeps one
# copy of a weak symbol for the whole program, perhaps a copy that this CPU cannot run.
execute_process(COMMAND "${NM}" --defined-only "${LIBRARY}" OUTPUT_VARIABLE symbols
                RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${NM} failed on ${LIBRARY}")
endif()
string(REPLACE "\n" ";" lines "${symbols}")
set(member "")
set(checked 0)
foreach(line IN LISTS lines)
  if(line MATCHES "^(.*)\\.o:$")
    set(member "${CMAKE_MATCH_1}")
    if(member MATCHES "^(scan_)?(avx2|avx512|avx512_bf16|amx|amx_twin)(_grouped)?\\.cc$")
      math(EXPR checked "${checked} + 1")
    endif()
  elseif(member MATCHES "^(scan_)?(avx|amx)" AND line MATCHES " [WVwvu] (.*)$")
    message(SEND_ERROR "${member} defines the weak symbol ${CMAKE_MATCH_1}")
  endif()
endforeach()
if(NOT checked EQUAL EXPECTED)
  message(FATAL_ERROR "expected ${EXPECTED} objects of x86 instruction sets in ${LIBRARY}, found ${checked}")
endif()
