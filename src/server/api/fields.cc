#include "server/api/fields.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "server/output/json_checks.h"
#include "text/utf8.h"

namespace forerun::server {
namespace {

constexpr size_t kMostShown = 60;

std::string shown(const Json& value) {
  std::string text = json_line(value);
  if (text.size() > kMostShown) {
    text.resize(kMostShown);
    text.resize(text::well_formed_prefix(text));
    text += "...";
  }
  return text;
}

std::string range(const std::string& kind, double least, double most) {
  char text[96];
  if (least <= -9e15 && most >= 9e15) return kind + " of 64 bits";
  if (most >= 9e15) {
    std::snprintf(text, sizeof(text), "of %.15g and more", least);
  } else {
    std::snprintf(text, sizeof(text), "from %.15g to %.15g", least, most);
  }
  return kind + " " + text;
}

}  // namespace

Fields::Fields(const Json& object, std::string path) : object_(object), path_(std::move(path)) {}

const Json* Fields::any(const char* name) {
  if (error_) return nullptr;
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void Fields::refuse(const char* name, const std::string& accepted) {
  if (error_) return;
  const auto found = object_.find(name);
  const std::string what = found == object_.end() ? "nothing" : shown(*found);
  error_ = api_error(400, path_ + name + ": found " + what + ", accepted is " + accepted);
  error_->param = path_ + name;
}

std::optional<bool> Fields::boolean(const char* name) {
  const Json* const found = any(name);
  if (found == nullptr) return std::nullopt;
  if (found->is_boolean()) return found->get<bool>();
  refuse(name, "true or false");
  return std::nullopt;
}

std::optional<double> Fields::number(const char* name, double least, double most) {
  const Json* const found = any(name);
  if (found == nullptr) return std::nullopt;
  if (found->is_number()) {
    const auto value = found->get<double>();
    if (std::isfinite(value) && value >= least && value <= most) return value;
  }
  refuse(name, range("a number", least, most));
  return std::nullopt;
}

std::optional<int64_t> Fields::integer(const char* name, int64_t least, int64_t most) {
  const Json* const found = any(name);
  if (found == nullptr) return std::nullopt;
  const bool fits = found->is_number_integer() &&
                    (!found->is_number_unsigned() || found->get<uint64_t>() <= uint64_t{INT64_MAX});
  if (fits) {
    const auto value = found->get<int64_t>();
    if (value >= least && value <= most) return value;
  } else if (found->is_number_float()) {  // some clients write 16.0
    const auto value = found->get<double>();
    const bool whole = std::floor(value) == value && std::abs(value) < 9e15;
    if (whole && value >= static_cast<double>(least) && value <= static_cast<double>(most)) {
      return static_cast<int64_t>(value);
    }
  }
  refuse(name, range("an integer", static_cast<double>(least), static_cast<double>(most)));
  return std::nullopt;
}

std::optional<std::string> Fields::string(const char* name) {
  const Json* const found = any(name);
  if (found == nullptr) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  refuse(name, "a string");
  return std::nullopt;
}

std::optional<std::string> Fields::choice(const char* name,
                                          const std::vector<std::string>& accepted) {
  const Json* const found = any(name);
  if (found == nullptr) return std::nullopt;
  if (found->is_string() &&
      std::count(accepted.begin(), accepted.end(), found->get<std::string>())) {
    return found->get<std::string>();
  }
  std::string all;
  for (const std::string& each : accepted) {
    const bool is_last = &each == &accepted.back();
    all += (all.empty() ? "" : is_last ? " or " : ", ") + ("\"" + each + "\"");
  }
  refuse(name, all);
  return std::nullopt;
}

std::optional<std::vector<std::string>> Fields::strings(const char* name, size_t most) {
  const Json* const found = any(name);
  if (found == nullptr) return std::nullopt;
  if (found->is_string()) return std::vector<std::string>{found->get<std::string>()};
  const bool good =
      found->is_array() && found->size() <= most &&
      std::all_of(found->begin(), found->end(), [](const Json& item) { return item.is_string(); });
  if (good) return found->get<std::vector<std::string>>();
  refuse(name, "a string or a list of up to " + std::to_string(most) + " strings");
  return std::nullopt;
}

std::optional<std::vector<int32_t>> Fields::integers(const char* name, size_t most) {
  const Json* const found = any(name);
  if (found == nullptr) return std::nullopt;
  const auto is_token = [](const Json& item) {
    return item.is_number_integer() && item.get<int64_t>() >= 0 && item.get<int64_t>() <= INT32_MAX;
  };
  const bool good = found->is_array() && found->size() <= most &&
                    std::all_of(found->begin(), found->end(), is_token);
  if (good) return found->get<std::vector<int32_t>>();
  refuse(name, "a list of up to " + std::to_string(most) + " token ids");
  return std::nullopt;
}

const Json* Fields::object(const char* name) {
  const Json* const found = any(name);
  if (found == nullptr || found->is_object()) return found;
  refuse(name, "an object");
  return nullptr;
}

const Json* Fields::array(const char* name) {
  const Json* const found = any(name);
  if (found == nullptr || found->is_array()) return found;
  refuse(name, "a list");
  return nullptr;
}

std::optional<ApiError> parse_object(const std::string& body, Json* object) {
  if (const char* const excess = excess_of_json(body)) {
    return api_error(400, std::string("body: accepted is simpler JSON: ") + excess);
  }
  try {
    *object = Json::parse(body);
  } catch (const Json::exception& error) {
    std::string why = error.what();
    const size_t end = why.find("] ");  // behind the library's own number
    if (end != std::string::npos) why = why.substr(end + 2);
    return api_error(400, "body: no JSON: " + why);
  }
  if (!object->is_object()) return api_error(400, "body: accepted is a JSON object");
  return std::nullopt;
}

}  // namespace forerun::server
