// Macros that return a failure to the caller, for Forerun's own code. Public headers define no
// macros.
#pragma once

#include <utility>

#include "forerun/status.h"

// Returns from the enclosing function if `expr` (a Status) is not ok.
#define FORERUN_RETURN_IF_ERROR(expr)                                                              \
  do {                                                                                             \
    if (::forerun::Status forerun_status_ = (expr); !forerun_status_.ok()) return forerun_status_; \
  } while (false)

// FORERUN_ASSIGN_OR_RETURN(auto x, f()) sets x to f()'s value, or returns f()'s failure.
#define FORERUN_CONCAT_INNER_(a, b) a##b
#define FORERUN_CONCAT_(a, b) FORERUN_CONCAT_INNER_(a, b)
#define FORERUN_ASSIGN_OR_RETURN(lhs, expr) \
  FORERUN_ASSIGN_OR_RETURN_(FORERUN_CONCAT_(forerun_result_, __LINE__), lhs, expr)
#define FORERUN_ASSIGN_OR_RETURN_(tmp, lhs, expr) \
  auto tmp = (expr);                              \
  if (!tmp.ok()) return tmp.status();             \
  lhs = std::move(tmp).value()
