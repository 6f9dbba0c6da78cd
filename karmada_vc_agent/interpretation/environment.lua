-- Prepares a fresh virtual machine for one script.
--
-- It keeps the functions it needs in locals, leaves the script what contract 7.7 lists, and removes
-- everything else, above all `python`, `io`, `debug` and whatever loads code. A script never gets a
-- Python value: only Lua functions call Python functions, which take and return strings, numbers
-- and booleans, and never raise.
--
-- Called with the Python functions, by name; returns a function: `run(script, function name, type
-- of the result, arguments...)` -> true, result (a table as JSON) or false, reason.

local MAX_INPUT = 1000000  -- bytes of a string that the string library takes
local python = ...
local assert, error, next, pairs, pcall, select = assert, error, next, pairs, pcall, select
local loadstring, rawget, tostring, tonumber = loadstring, rawget, tostring, tonumber
local type, unpack, xpcall = type, unpack, xpcall
local concat, floor, huge = table.concat, math.floor, math.huge
local byte, find, format, gsub = string.byte, string.find, string.format, string.gsub
local len, lower, match, upper = string.len, string.lower, string.match, string.upper
local globals = _G

collectgarbage("setpause", 120)

-- errors ----------------------------------------------------------------------------------

local function reason(problem)
  if type(problem) == "userdata" then return "not enough memory" end
  return problem
end

local function cleaned(ok, ...)
  if ok then return true, ... end
  return false, reason((...))
end

globals.pcall = function(f, ...) return cleaned(pcall(f, ...)) end

globals.xpcall = function(f, handler)
  return xpcall(f, function(problem) return handler(reason(problem)) end)
end

local function refused(name)
  return function() error(name .. " is not available in an interpreter script", 2) end
end

local function answered(ok, ...)
  if not ok then error((...), 3) end
  return ...
end

-- texts -----------------------------------------------------------------------------------

local number_text = python.number_text

globals.tostring = function(...)
  local value = ...
  if type(value) == "number" then return answered(number_text(value)) end
  return tostring(...)
end

-- As in Karmada: a text without a point is an integer or nothing, so "1e3" is nil.
globals.tonumber = function(...)
  local value, base = ...
  if type(value) == "number" then return value end
  if type(value) ~= "string" or base ~= nil and base ~= 10 then return tonumber(...) end
  local text = match(value, "^[ \n\t]*(.-)[ \n\t]*$")
  if find(text, ".", 1, true) or find(text, "^[+-]?%d+$")
    or base == nil and find(text, "^0[xX]%x+$") then
    return tonumber(text)
  end
  return nil
end

globals.print = function() end

local function limited(value)
  if type(value) == "string" and len(value) > MAX_INPUT then
    error("a string of " .. len(value) .. " bytes is longer than the string library takes", 3)
  end
end

local function guarded(f)
  return function(text, ...)
    limited(text)
    return f(text, ...)
  end
end

local function guarded_pattern(f)
  return function(text, pattern, ...)
    limited(text)
    limited(pattern)
    return f(text, pattern, ...)
  end
end

local function cased(f, of_unicode)
  return function(text, ...)
    limited(text)
    if type(text) == "string" and find(text, "[\128-\255]") then
      return answered(of_unicode(text))
    end
    return f(text, ...)
  end
end

local function described(value)
  local kind = type(value)
  if kind == "string" or kind == "number" or kind == "boolean" or kind == "nil" then
    return value
  end
  return tostring(value)
end

string.byte = guarded(string.byte)
string.find = guarded_pattern(function(text, pattern, ...)
  if pattern == "" then return 1, 0 end
  return find(text, pattern, ...)
end)
string.match = guarded_pattern(match)
string.gmatch = guarded_pattern(string.gmatch)
string.gfind = string.gmatch
string.lower = cased(lower, python.lower)
string.upper = cased(upper, python.upper)
string.reverse = guarded(string.reverse)
string.sub = guarded(string.sub)
string.format = function(template, ...)
  limited(template)
  if type(template) ~= "string" then template = format("%s", template) end
  local count = select("#", ...)
  local values = { ... }
  for index = 1, count do values[index] = described(values[index]) end
  return answered(python.format(template, unpack(values, 1, count)))
end
string.gsub = refused("string.gsub")
string.rep = refused("string.rep")
string.dump = refused("string.dump")

-- clock -----------------------------------------------------------------------------------

local function whole(fields, name, default)
  local value = rawget(fields, name)
  return type(value) == "number" and value or default
end

local os = {}

os.time = function(...)
  if select("#", ...) == 0 then return answered(python.now()) end
  local fields = ...
  if type(fields) ~= "table" then error("os.time takes a table", 2) end
  return answered(python.time_of(
    whole(fields, "year", -1), whole(fields, "month", -1), whole(fields, "day", -1),
    whole(fields, "hour", 12), whole(fields, "min", 0), whole(fields, "sec", 0)))
end

os.date = function(template, moment)
  template = template == nil and "%c" or template
  if type(template) ~= "string" then error("os.date takes a format", 2) end
  local is_table, year, month, day, hour, minute, second, weekday =
    answered(python.date(template, moment and tonumber(moment)))
  if type(is_table) == "string" then return is_table end
  return {
    year = year, month = month, day = day, hour = hour, min = minute, sec = second,
    wday = weekday, yday = 0, isdst = false,
  }
end

-- JSON ------------------------------------------------------------------------------------

local function escaped(character) return format("\\u%04x", byte(character)) end

local function put_text(out, text)
  out[#out + 1] = '"' .. gsub(text, '[%c"\\]', escaped) .. '"'
end

local function put_number(out, number)
  if number ~= number or number == huge or number == -huge then
    error("a number that is not finite has no JSON", 0)
  end
  local is_whole = number == floor(number) and number < 1e21 and number > -1e21
  out[#out + 1] = format(is_whole and "%.0f" or "%.17g", number)
end

local put

local function put_list(out, list, seen)
  local count = 0
  for key in pairs(list) do
    if type(key) ~= "number" then error("a table with mixed keys has no JSON", 0) end
    count = count + 1
  end
  out[#out + 1] = "["
  for index = 1, count do
    local value = rawget(list, index)
    if value == nil then error("a list with gaps has no JSON", 0) end
    if index > 1 then out[#out + 1] = "," end
    put(out, value, seen)
  end
  out[#out + 1] = "]"
end

local function put_map(out, map, seen)
  local separator = "{"
  for key, value in pairs(map) do
    if type(key) ~= "string" then error("a table with mixed keys has no JSON", 0) end
    out[#out + 1] = separator
    put_text(out, key)
    out[#out + 1] = ":"
    put(out, value, seen)
    separator = ","
  end
  out[#out + 1] = "}"
end

-- An empty table may have been a list or a map: it becomes [].
put = function(out, value, seen)
  local kind = type(value)
  if kind == "string" then
    put_text(out, value)
  elseif kind == "number" then
    put_number(out, value)
  elseif kind == "boolean" then
    out[#out + 1] = tostring(value)
  elseif kind ~= "table" then
    error("a " .. kind .. " has no JSON", 0)
  elseif seen[value] then
    error("a table that occurs twice has no JSON", 0)
  else
    seen[value] = true
    local first = next(value)
    if first == nil then
      out[#out + 1] = "[]"
    elseif type(first) == "number" then
      put_list(out, value, seen)
    else
      put_map(out, value, seen)
    end
  end
end

local function json(value)
  local out = {}
  put(out, value, {})
  return concat(out)
end

-- modules ---------------------------------------------------------------------------------

local function quantity_of(value, index)
  local kind = type(value)
  if kind ~= "nil" and kind ~= "string" then
    error("argument " .. index .. " is a " .. kind .. ", not a quantity like \"500m\"", 3)
  end
  return value
end

local function load_kube()
  return {
    resourceAdd = function(...)
      local count = select("#", ...)
      local quantities = { ... }
      for index = 1, count do quantity_of(quantities[index], index) end
      return answered(python.resource_add(unpack(quantities, 1, count)))
    end,
    getResourceQuantity = function(...)
      if select("#", ...) ~= 1 then error("getResourceQuantity takes one argument", 2) end
      return answered(python.resource_quantity(quantity_of((...), 1)))
    end,
    -- Only scripts for replicas and dependencies need these; they run in the control plane.
    accuratePodRequirements = refused("kube.accuratePodRequirements"),
    getPodDependencies = refused("kube.getPodDependencies"),
  }
end

local package = {
  loaded = { _G = globals, table = table, string = string, math = math, os = os },
  preload = { kube = load_kube },
  loaders = {},
  loadlib = refused("package.loadlib"),
}
package.loaded.package = package

local function require(name)
  local loaded = package.loaded[name]
  if loaded ~= nil then return loaded end
  local loader = package.preload[name]
  if loader == nil then error("there is no module " .. tostring(name), 2) end
  loaded = loader(name)
  if loaded == nil then loaded = package.loaded[name] end
  if loaded == nil then loaded = true end
  package.loaded[name] = loaded
  return loaded
end

-- what stays ------------------------------------------------------------------------------

local function keep(library, names)
  local kept = {}
  for name in string.gmatch(names, "%S+") do kept[name] = true end
  for name in pairs(library) do
    if not kept[name] then library[name] = nil end
  end
end

keep(table, "getn concat insert maxn remove sort")
keep(string, "byte char dump find format gfind gmatch gsub len lower match rep reverse sub upper")
keep(globals, "_G _VERSION assert error ipairs math next pairs pcall print select string "
  .. "table tonumber tostring type unpack xpcall")
globals.package, globals.require, globals.os = package, require, os
for name in string.gmatch("collectgarbage dofile getfenv getmetatable load loadfile loadstring "
    .. "module newproxy rawequal rawget rawset setfenv setmetatable", "%S+") do
  globals[name] = refused(name)
end

local function run(script, name, result_type, ...)
  local main, problem = loadstring(script, "=<string>")
  if main == nil then return false, problem end
  local ok, result = pcall(main)
  if not ok then return false, reason(result) end
  local f = rawget(globals, name)
  if f == nil then return false, "the script defines no function " .. name end
  if type(f) ~= "function" then return false, name .. " is a " .. type(f) .. ", no function" end
  ok, result = pcall(f, ...)
  if not ok then return false, reason(result) end
  if type(result) ~= result_type then
    return false, name .. " returned " .. type(result) .. ", not a " .. result_type
  end
  if result_type ~= "table" then return true, result end
  ok, result = pcall(json, result)
  if ok then return true, result end
  return false, name .. " returned what cannot be sent: " .. tostring(reason(result))
end

return function(...)
  local ok, result = run(...)
  if not ok and type(result) ~= "string" then result = tostring(result) end
  return ok, result
end
