// Kinds of characters that readers of requests look for.
#pragma once

namespace forerun::server {

// RFC 5234's CTL without the tab, which values of fields may have.
inline bool is_control_char(unsigned char byte) {
  return (byte < 0x20 && byte != '\t') || byte == 0x7f;
}

// The value of a hexadecimal digit; -1: the character is none.
inline int hex_value(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

}  // namespace forerun::server
