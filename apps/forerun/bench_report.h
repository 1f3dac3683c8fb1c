// The report of `forerun bench`: its rows as cells of a table and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runner/load_stats.h"
#include "runner/long_prompt.h"
#include "runner/summary.h"

namespace forerun::app {

// Return the titles of the cells, "workload" first.
std::vector<std::string> one_by_one_titles();
std::vector<std::string> load_titles();
std::vector<std::string> long_prompt_titles();

std::vector<std::string> row_cells(const std::string& workload, const bench::RunnerRow& row);
std::vector<std::string> row_cells(const std::string& workload, const bench::LoadRow& row);
std::vector<std::string> row_cells(const std::string& workload, const bench::LongPromptRow& row);

nlohmann::ordered_json row_json(const bench::RunnerRow& row);
nlohmann::ordered_json row_json(const bench::LoadRow& row);
nlohmann::ordered_json row_json(const bench::LongPromptRow& row);

}  // namespace forerun::app
