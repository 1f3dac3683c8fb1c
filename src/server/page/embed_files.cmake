# Writes a C++ file that holds other files as raw strings, at build time:
#   cmake -D OUTPUT=page_data.cc -D FOLDER=... -D FILES=a.js,b.css -P embed_files.cmake
# FILES are text, named as in FOLDER.
string(REPLACE "," ";" FILES "${FILES}")

set(TEXT "#include \"server/page/page_data.h\"\n\nnamespace forerun::server {\n\n")
string(APPEND TEXT "const std::vector<EmbeddedFile>& embedded_files() {\n")
string(APPEND TEXT "  static const std::vector<EmbeddedFile> files = {\n")
set(DELIMITER "forerun_page")
foreach(FILE ${FILES})
  file(READ "${FOLDER}/${FILE}" BYTES)
  string(FIND "${BYTES}" ")${DELIMITER}\"" AT)
  if(NOT AT EQUAL -1)
    message(FATAL_ERROR "${FILE}: holds what ends a raw string")
  endif()
  string(APPEND TEXT "      {\"${FILE}\", R\"${DELIMITER}(${BYTES})${DELIMITER}\"},\n")
endforeach()
string(APPEND TEXT "  };\n  return files;\n}\n\n}  // namespace forerun::server\n")
file(WRITE "${OUTPUT}" "${TEXT}")
