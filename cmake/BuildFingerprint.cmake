# Writes OUTPUT, the definition of build_fingerprint(): a hash of what the time of a Step depends on,
# and of what the processes of a launch must have alike to read each other's messages.
#   cmake -DSOURCE_DIR=... -DSETTINGS=... -DOUTPUT=... -P BuildFingerprint.cmake
# A script of the build and not of the configuration: an edited kernel is another build.
set(STATES ${SETTINGS})
# The planner says how times are measured.
foreach(folder base wire device kernels kv model sampling step exec planner hosts supervisor ../include)
  file(GLOB_RECURSE files RELATIVE "${SOURCE_DIR}" "${SOURCE_DIR}/${folder}/*")
  list(FILTER files EXCLUDE REGEX "_(test|rig|bench|fuzz)\\.")
  list(SORT files)
  foreach(file ${files})
    file(SHA256 "${SOURCE_DIR}/${file}" hash)
    list(APPEND STATES "${file} ${hash}")
  endforeach()
endforeach()
string(SHA256 FINGERPRINT "${STATES}")
string(SUBSTRING "${FINGERPRINT}" 0 16 FINGERPRINT)
file(WRITE "${OUTPUT}" "#include \"engine/load/build_fingerprint.h\"

namespace forerun {

const char* build_fingerprint() { return \"${FINGERPRINT}\"; }

}  // namespace forerun
")
