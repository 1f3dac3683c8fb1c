# forerun_build_fingerprint: what src/engine/load/build_fingerprint.h declares. Ninja starts a command the earlier, the
# earlier it is defined, and compiles no program before the sources of all its libraries have been generated.

# Again whenever a source or a setting has changed.
file(GLOB_RECURSE FINGERPRINTED CONFIGURE_DEPENDS
     "${PROJECT_SOURCE_DIR}/src/*.h" "${PROJECT_SOURCE_DIR}/src/*.cc" "${PROJECT_SOURCE_DIR}/src/*.cu"
     "${PROJECT_SOURCE_DIR}/src/*.cuh" "${PROJECT_SOURCE_DIR}/src/*.inc"
     "${PROJECT_SOURCE_DIR}/include/*.h")
string(TOUPPER "${CMAKE_BUILD_TYPE}" BUILD_TYPE)
set(SETTINGS "${CMAKE_CXX_COMPILER_ID}" "${CMAKE_CXX_COMPILER_VERSION}" "${CMAKE_CXX_FLAGS}"
             "${CMAKE_CXX_FLAGS_${BUILD_TYPE}}" "${FORERUN_SANITIZE}" "${CMAKE_CUDA_COMPILER_VERSION}"
             "${CMAKE_CUDA_FLAGS}" "${CMAKE_CUDA_ARCHITECTURES}")
list(JOIN SETTINGS "," SETTINGS)
set(FINGERPRINT "${PROJECT_BINARY_DIR}/build_fingerprint.cc")
add_custom_command(
  OUTPUT "${FINGERPRINT}"
  COMMAND "${CMAKE_COMMAND}" "-DSOURCE_DIR=${PROJECT_SOURCE_DIR}/src" "-DSETTINGS=${SETTINGS}"
          "-DOUTPUT=${FINGERPRINT}" -P "${PROJECT_SOURCE_DIR}/cmake/BuildFingerprint.cmake"
  DEPENDS ${FINGERPRINTED} "${PROJECT_SOURCE_DIR}/cmake/BuildFingerprint.cmake"
  VERBATIM)
forerun_library(build_fingerprint SOURCES "${FINGERPRINT}")
