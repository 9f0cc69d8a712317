(ns reply
  (:require [clojure.string :as str]))

(defn reply [body type answer]
  (answer (str/upper-case (.toString body)) type))
