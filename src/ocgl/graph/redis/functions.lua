#!lua name=NAME

-- Functions of a graph on Redis. KEYS[1] of each call is the mark of one partition: '{tag}w'. All keys of a partition
-- begin with '{tag}', so they lie in one slot:
--   w        its mark: 'SEQUENCE CHANGED', the last change that was applied, and the last that was more than growth
--   r<node>  a row: degree and version (32-bit integers), then the first neighbours (32-bit integers, sorted)
--   o<node>  the other neighbours of a row of more than 128
--   x<node>  features of a node (32-bit floats), after their columns (32-bit integers) if they are sparse
--   m<page>  id (64-bit integer, -1 for none) and time (64-bit float) of 64 nodes
--   n<page>  ids that are text, by place in the page
--   k<n>     positions by id, in buckets
--   s<page>  nodes that had arrived, edges and removed nodes (64-bit integers) after each of 64 changes
-- Every answer begins with the mark as it was at that moment.

local PAGE, SHORT = 64, 128

local function tag_of(keys)
  return string.sub(keys[1], 1, -2)
end

local function mark_of(keys)
  return redis.call('GET', keys[1]) or '0 0'
end

local function positions_of(blob)
  local found = {}
  for i = 1, #blob / 4 do
    found[i] = struct.unpack('<i4', blob, 4 * i - 3)
  end
  return found
end

-- Every node has its row and its place in pages. Where one lacks, its slot is moving to another server, or the
-- partition has lost changes: the mark says which.
local function lacking(keys)
  return redis.error_reply('OCGLLACKING ' .. string.match(mark_of(keys), '^%d+'))
end

-- Apply a change, once: one that was applied is passed by, and one that does not follow is refused.
-- All keys are declared: while their slot moves, Redis refuses a call that touches keys on both sides.
-- ARGV: its sequence number; that of the change before it in this partition; 1 if it is more than growth; operations.
local function apply(keys, args)
  local mark = mark_of(keys)
  local have, changed = string.match(mark, '^(%d+) (%d+)$')
  local sequence, before = tonumber(args[1]), tonumber(args[2])
  if tonumber(have) >= sequence then
    return mark
  end
  if tonumber(have) ~= before then
    return redis.error_reply('OCGLBEHIND ' .. have)
  end
  for _, op in ipairs(cmsgpack.unpack(args[4])) do
    local key = keys[tonumber(op[2])]
    if op[1] == '+' then  -- entries at the end of a row
      local degree, version = struct.unpack('<i4i4', redis.call('GETRANGE', key, 0, 7))
      local added, room = #op[3] / 4, math.max(SHORT - degree, 0)
      if room > 0 then
        redis.call('SETRANGE', key, 8 + 4 * degree, string.sub(op[3], 1, 4 * room))
      end
      if added > room then
        redis.call('SETRANGE', keys[tonumber(op[4])], 4 * math.max(degree - SHORT, 0), string.sub(op[3], 4 * room + 1))
      end
      redis.call('SETRANGE', key, 0, struct.pack('<i4i4', degree + added, version + added))
    elseif op[1] == 'P' then  -- part of a page, which gets its whole size at once
      if redis.call('EXISTS', key) == 0 then
        redis.call('SETRANGE', key, op[5] - 1, '\0')
      end
      redis.call('SETRANGE', key, op[3], op[4])
    else
      redis.call(op[1], key, unpack(op, 3))
    end
  end
  mark = args[1] .. ' ' .. (args[3] == '1' and args[1] or changed)
  redis.call('SET', keys[1], mark)
  return mark
end

-- Chosen entries of rows, beyond the first ones. ARGV: positions; how many of each; which.
local function entries(keys, args)
  local tag = tag_of(keys)
  local counts, picks = positions_of(args[2]), positions_of(args[3])
  local found, at = {}, 0
  for i, node in ipairs(positions_of(args[1])) do
    local key = tag .. 'o' .. node
    for j = at + 1, at + counts[i] do
      local place = 4 * (picks[j] - SHORT)
      found[j] = redis.call('GETRANGE', key, place, place + 3)
      if #found[j] < 4 then
        return lacking(keys)
      end
    end
    at = at + counts[i]
  end
  return {mark_of(keys), table.concat(found)}
end

-- Parts of pages, one for each node. ARGV: positions; letter of the pages; bytes of a node; 1 if a page may lack.
local function pages(keys, args)
  local tag, size = tag_of(keys) .. args[2], tonumber(args[3])
  local found = {}
  for i, node in ipairs(positions_of(args[1])) do
    local place = node % PAGE
    found[i] = redis.call('GETRANGE', tag .. (node - place) / PAGE, place * size, place * size + size - 1)
    if #found[i] < size and args[4] ~= '1' then
      return lacking(keys)
    end
  end
  return {mark_of(keys), table.concat(found)}
end

-- Ids that are text. ARGV: positions.
local function names(keys, args)
  local tag = tag_of(keys) .. 'n'
  local found = {mark_of(keys)}
  for i, node in ipairs(positions_of(args[1])) do
    local place = node % PAGE
    found[i + 1] = redis.call('HGET', tag .. (node - place) / PAGE, place)
    if not found[i + 1] then
      return lacking(keys)
    end
  end
  return found
end

-- Positions of ids; -1 for none. A bucket may lack, so all are declared. ARGV: the ids, one for each bucket.
local function find(keys, args)
  local found = {}
  for i, id in ipairs(args) do
    found[i] = struct.pack('<i4', tonumber(redis.call('HGET', keys[i + 1], id) or '-1'))
  end
  return {mark_of(keys), table.concat(found)}
end

-- Degree of a row, and a function that reads an entry of it; nothing where it lacks.
local function row_of(tag, node)
  local head = redis.call('GETRANGE', tag .. 'r' .. node, 0, 3)
  if #head < 4 then
    return nil
  end
  return (struct.unpack('<i4', head)), function(place)
    local key, at = tag .. 'r' .. node, 8 + 4 * place
    if place >= SHORT then
      key, at = tag .. 'o' .. node, 4 * (place - SHORT)
    end
    local entry = redis.call('GETRANGE', key, at, at + 3)
    return #entry == 4 and (struct.unpack('<i4', entry)) or nil
  end
end

-- How many entries of a row are below a value, by binary search; the entry there; how many were read. Nothing where
-- the row lacks.
local function below(tag, node, value)
  local degree, entry = row_of(tag, node)
  if not degree then
    return nil
  end
  local low, high, probes = 0, degree, degree > 0 and 1 or 0
  while low < high do
    probes = probes + 1
    local middle = math.floor((low + high) / 2)
    local found = entry(middle)
    if not found then
      return nil
    end
    if found < value then low = middle + 1 else high = middle end
  end
  return low, low < degree and entry(low), probes
end

-- Whether rows have entries, and how many entries were read to find out. ARGV: rows; entries.
local function have(keys, args)
  local tag, wanted, found = tag_of(keys), positions_of(args[2]), {}
  for i, node in ipairs(positions_of(args[1])) do
    local low, entry, probes = below(tag, node, wanted[i])
    if not low then
      return lacking(keys)
    end
    found[i] = struct.pack('<i4i4', entry == wanted[i] and 1 or 0, probes)
  end
  return {mark_of(keys), table.concat(found)}
end

-- Degrees as they were when `arrived` nodes had arrived: rows are sorted and have only grown.
-- ARGV: positions; number of nodes.
local function degrees_at(keys, args)
  local tag, found = tag_of(keys), {}
  for i, node in ipairs(positions_of(args[1])) do
    local low = below(tag, node, tonumber(args[2]))
    if not low then
      return lacking(keys)
    end
    found[i] = struct.pack('<i4', low)
  end
  return {mark_of(keys), table.concat(found)}
end

-- Forget everything of some pages and buckets. ARGV: first and last page; step; first and last bucket; 1 to end.
local function drop(keys, args)
  local tag = tag_of(keys)
  for page = tonumber(args[1]), tonumber(args[2]), tonumber(args[3]) do
    redis.call('UNLINK', tag .. 'm' .. page, tag .. 'n' .. page, tag .. 's' .. page)
    for node = page * PAGE, page * PAGE + PAGE - 1 do
      redis.call('UNLINK', tag .. 'r' .. node, tag .. 'o' .. node, tag .. 'x' .. node)
    end
  end
  for bucket = tonumber(args[4]), tonumber(args[5]) do
    redis.call('UNLINK', tag .. 'k' .. bucket)
  end
  if args[6] == '1' then
    redis.call('UNLINK', keys[1])
  end
  return 'OK'
end

redis.register_function('NAME_apply', apply)
redis.register_function('NAME_drop', drop)

local function reading(name, act)
  redis.register_function{function_name = 'NAME_' .. name, callback = act, flags = {'no-writes'}}
end

reading('entries', entries)
reading('pages', pages)
reading('names', names)
reading('find', find)
reading('have', have)
reading('degrees_at', degrees_at)
