// Cuts a stream of text before (or after) the first stop string. It never releases a character that
// could still turn out to belong to one.
//
// Every byte is compared with each stop string a constant number of times (Knuth, Morris and
// Pratt), for stop strings of any length.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace forerun {

class StopMatcher {
 public:
  // Ignores empty strings. `keep_stop`: the text includes the stop string.
  explicit StopMatcher(const std::vector<std::string>& stops, bool keep_stop = false);

  // Appends `text` and returns the text that may be shown now. Once a stop string is complete,
  // everything before it is returned, stopped() is true, and later calls return nothing. Of two
  // overlapping stop strings, the one that begins first wins; of two that begin together, the
  // shorter. `may_stop` false: no stop string ends in this text.
  std::string push(std::string_view text, bool may_stop = true);
  // Ends the stream and returns the text that was held back.
  std::string finish();
  bool stopped() const { return stopped_; }
  // Returns the stop string that ended the text; empty: none.
  const std::string& stopped_by() const { return stopped_by_; }

 private:
  // One stop string, and how much of it is at the end of the text so far.
  class Pattern {
   public:
    explicit Pattern(std::string stop);
    // Takes the next byte of the text; returns whether it completes the stop string.
    bool take(char byte);
    size_t size() const { return stop_.size(); }
    // Returns the number of bytes at the end of the text that begin the stop string; never all of
    // it.
    size_t matched() const { return matched_; }

   private:
    std::string stop_;
    // Entry n - 1 holds, for the prefix of n bytes, the length of its longest border (a proper
    // prefix that is also a suffix).
    std::vector<uint32_t> shorter_;
    size_t matched_ = 0;
  };

  std::vector<Pattern> patterns_;
  bool keep_stop_ = false;
  std::string held_;  // the end of the text that may belong to a stop string
  bool stopped_ = false;
  std::string stopped_by_;
};

}  // namespace forerun
