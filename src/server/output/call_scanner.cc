#include "server/output/call_scanner.h"

#include <utility>

#include "server/output/literal.h"

namespace forerun::server {
namespace {

// Limits how often nested heads of calls are read again; real heads break off after a few hundred
// bytes.
constexpr size_t kMaxBytesReadAgain = 1 << 20;

std::vector<std::string> tags_of(const std::vector<CallOpening>& openings) {
  std::vector<std::string> tags;
  tags.reserve(openings.size());
  for (const CallOpening& opening : openings) tags.emplace_back(opening.tag);
  return tags;
}

}  // namespace

CallScanner::CallScanner(ToolFormat format)
    : format_(format), openings_(call_openings(format)), search_(tags_of(openings_)) {
  at_answer_start_ = make_untagged_form(format) != nullptr;
  search_.hold_all_spaces(at_answer_start_);
}

void CallScanner::push(std::string_view text, CallSink& sink) {
  if (openings_.empty()) {
    sink.content(text);
    return;
  }
  pending_.assign(text.rbegin(), text.rend());
  while (!pending_.empty() && !is_over_) {
    const char byte = pending_.back();
    pending_.pop_back();
    take(byte, sink);
  }
  pending_.clear();
  sink.content(std::exchange(text_, {}));
}

void CallScanner::take(char byte, CallSink& sink) {
  if (form_ != nullptr) {
    in_form(byte, sink);
  } else {
    in_text(byte, sink);
  }
}

void CallScanner::open(std::unique_ptr<CallForm> form, bool is_untagged) {
  form_ = std::move(form);
  form_is_untagged_ = is_untagged;
  form_has_call_ = false;
  held_ = search_.held();
  search_.clear();
  at_answer_start_ = is_after_call_ = false;
  search_.hold_all_spaces(false);
}

void CallScanner::in_text(char byte, CallSink& sink) {
  if (bytes_read_again_ > kMaxBytesReadAgain) {
    text_ += byte;
    return;
  }
  if (at_answer_start_ && byte == '{' && !search_.holds_partial_tag()) {
    open(make_untagged_form(format_), /*is_untagged=*/true);
    in_form(byte, sink);
    return;
  }
  const size_t text_bytes = text_.size();
  const int opening_idx = search_.push(byte, text_);
  if (text_.size() != text_bytes && (at_answer_start_ || is_after_call_)) {
    at_answer_start_ = is_after_call_ = false;
    search_.hold_all_spaces(false);
  }
  if (opening_idx != TagSearch::kNothing) {
    open(openings_[static_cast<size_t>(opening_idx)].make_form(), /*is_untagged=*/false);
  }
}

void CallScanner::in_form(char byte, CallSink& sink) {
  held_ += byte;
  // Content comes before the call.
  sink.content(std::exchange(text_, {}));
  const uint64_t events = sink.num_call_events();
  const CallForm::Step step = form_->push(byte, sink);
  if (step == CallForm::Step::kBad) {
    give_up(sink);
    return;
  }
  if (sink.num_call_events() != events || step != CallForm::Step::kMore) {
    form_has_call_ = true;
    held_.clear();
  }
  const bool call_is_done = step != CallForm::Step::kMore;
  if (step == CallForm::Step::kEnd) end_form();
  if (call_is_done && !sink.parallel()) is_over_ = true;
}

void CallScanner::end_form() {
  form_.reset();
  is_after_call_ = true;
  search_.hold_all_spaces(true);
}

void CallScanner::give_up(CallSink& sink) {
  std::string again = std::exchange(held_, {});
  if (form_has_call_) {
    sink.leave_call();
    end_form();
  } else {
    // The first character cannot open another tag: every tag is tried once per position.
    form_.reset();
    const size_t tag_at = again.find_first_not_of(" \t\r\n");
    text_ += again.substr(0, tag_at + 1);
    again.erase(0, tag_at + 1);
  }
  pending_.append(again.rbegin(), again.rend());
  bytes_read_again_ += again.size();
}

bool CallScanner::holds_markup() const {
  if (!form_is_untagged_ || form_has_call_) return true;
  std::string text = held_;
  std::erase_if(text, is_json_space);
  for (const std::string_view head : {R"({"name":")", R"({"type":"function")"}) {
    if (text.starts_with(head) || head.starts_with(text)) return true;
  }
  return false;
}

void CallScanner::finish(CallSink& sink, bool is_cut) {
  if (is_over_) return;
  if (form_ != nullptr) {
    const bool is_dropped = is_cut && holds_markup();
    if (!is_dropped && !form_->finish(sink)) text_ += held_;
    ends_within_call_ = !sink.last_call_is_whole();
  } else if (search_.holds_partial_tag() ? is_cut : is_after_call_) {
    search_.clear();
  }
  text_ += search_.held();
  sink.content(std::exchange(text_, {}));
}

}  // namespace forerun::server
