#include "runner/stage_settings.h"

#include <utility>

namespace forerun::bench {
namespace {

StageSetting pipelined(std::string name, const char* shape, int32_t width,
                       int32_t draft_width = 0) {
  StageSetting setting{std::move(name), {.strategy = "pipelined"}};
  setting.options.shape = shape;
  setting.options.verify_tokens = width;
  if (draft_width > 0) setting.options.draft_width = draft_width;
  return setting;
}

StageSetting serial_tree(std::string name, const char* shape) {
  StageSetting setting{std::move(name), {.strategy = "serial_tree"}};
  setting.options.shape = shape;
  return setting;
}

StageSetting serial_best(std::string name, int32_t rows, int32_t draft_width, int32_t draft_depth) {
  StageSetting setting = serial_tree(std::move(name), "best");
  setting.options.source = "model";
  setting.options.verify_tokens = rows;
  setting.options.draft_width = draft_width;
  setting.options.draft_depth = draft_depth;
  return setting;
}

}  // namespace

std::vector<StageSetting> grid_settings() {
  std::vector<StageSetting> settings = {{"plain", {.strategy = "autoregressive"}},
                                        {"adaptive", {.strategy = "pipelined"}},
                                        serial_tree("serial adaptive", "adaptive")};
  for (const int32_t depth : {3, 6, 10}) {
    settings.push_back(serial_tree("chain d" + std::to_string(depth), "chain"));
    settings.back().options.draft_depth = depth;
  }
  for (const char* shape : {"1,1,3,1,1,1,1,1", "8,1,1,1,1,1,1", "4,2,2,1,1", "3,2,1,1,1,1,1,1,1"}) {
    settings.push_back(serial_tree(std::string("static ") + shape, shape));
  }
  settings.push_back(serial_best("best 16 d6", 16, 4, 6));
  for (const int32_t depth : {5, 8, 12}) {
    settings.push_back(serial_best("best d" + std::to_string(depth), 64, 16, depth));
  }
  return settings;
}

std::vector<StageSetting> all_settings(const std::vector<int32_t>& widths) {
  std::vector<StageSetting> settings = {{"plain", {.strategy = "autoregressive"}}};
  for (const int32_t width : widths) {
    settings.push_back(pipelined("levels " + std::to_string(width), "levels", width));
    settings.push_back(pipelined("best " + std::to_string(width), "best", width, width));
  }
  settings.push_back({"adaptive", {.strategy = "pipelined"}});
  for (const char* accept : {"relaxed", "nucleus:0.9", "nucleus:0.5"}) {  // these change the text
    settings.push_back({accept, {.strategy = "pipelined", .accept = accept}});
  }
  for (const bool hides_draft : {true, false}) {
    for (const char* shape :
         {"1,1,3,1,1,1,1,1", "8,1,1,1,1,1,1", "4,2,2,1,1", "3,2,1,1,1,1,1,1,1"}) {
      settings.push_back(
          serial_tree(std::string(hides_draft ? "hidden " : "static ") + shape, shape));
      settings.back().hides_draft = hides_draft;
    }
    for (const int32_t depth : {8, 12}) {
      settings.push_back(serial_best(
          (hides_draft ? "hidden best d" : "best d") + std::to_string(depth), 64, 16, depth));
      settings.back().hides_draft = hides_draft;
    }
  }
  return settings;
}

}  // namespace forerun::bench
