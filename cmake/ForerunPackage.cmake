# cpack --config BUILD_DIR/CPackConfig.cmake: a Debian package of what `cmake --install` gives.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME forerun)
set(CPACK_PACKAGE_VENDOR Forerun)
set(CPACK_PACKAGE_CONTACT "The Forerun developers <forerun@invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_DESCRIPTION
    "An engine that makes Llama-, Qwen- and Mistral-family models answer faster by speculative decoding,
and returns token for token what the model would have written without it. The command, a shared
library and its headers.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
# Which libraries it needs is read from the binaries, by dpkg-shlibdeps of dpkg-dev.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)
