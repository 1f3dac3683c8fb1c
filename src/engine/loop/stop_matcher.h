// Cuts a text stream before (or behind) the first of some stop strings, without ever releasing a
// character that could still turn out to belong to one.
//
// Every byte is compared with each stop string a constant number of times (Knuth, Morris and
// Pratt), however long the stop strings are and however often they nearly match.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace forerun {

class StopMatcher {
 public:
  // Empty strings are ignored. `keep_stop`: the stop string itself is shown too.
  explicit StopMatcher(const std::vector<std::string>& stops, bool keep_stop = false);

  // Appends `text` and returns what may be shown now. Once a stop string is complete everything
  // before it is returned, stopped() is true and later pushes return nothing. Where two stops
  // overlap the one that begins first wins, of two that begin together the shorter. `may_stop`
  // false: no stop string ends in this text.
  std::string push(std::string_view text, bool may_stop = true);
  // Ends the stream and returns what was held back.
  std::string finish();
  bool stopped() const { return stopped_; }
  // The stop string that ended the text; empty: none has.
  const std::string& stopped_by() const { return stopped_by_; }

 private:
  // One stop string, and how much of it the text so far ends with.
  class Pattern {
   public:
    explicit Pattern(std::string stop);
    // Takes the next byte of the text; returns whether it completes the stop string.
    bool take(char byte);
    size_t size() const { return stop_.size(); }
    // Bytes at the end of the text that begin the stop string; never all of it.
    size_t matched() const { return matched_; }

   private:
    std::string stop_;
    // Entry n - 1, for the prefix of n bytes: the length of its longest border (a proper prefix
    // that is a suffix, too).
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
